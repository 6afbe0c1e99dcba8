"""first_edge, on the general path: written by ninepoint."""

from ninepoint.backends.numba.relative import (
    go_on,
    look,
    near,
    njit,
    peek,
    stored,
    unowned,
    wide,
)

FLAGS = dict(nogil=True, error_model='numpy', boundscheck=True, fastmath=False)


@njit(**FLAGS, forceinline=True, cache=True)
def point(x):
    outside = x.outside
    turns = 256
    steps = 0
    while steps < 3 and abs(wide(peek(x.array, (x.place[0], x.place[1], near(x.place[2], steps, 0, 2, x.outside, 0)))) - wide(peek(x.array, (x.place[0], x.place[1], x.place[2])))) < 10:
        turns -= 1
        if turns == 0:
            turns = go_on(outside)
        steps += 1
    return steps


def band(field0, out0, outside):
    field0 = unowned(field0)
    outside = unowned(outside)
    for b in range(out0.shape[0]):
        for i0 in range(out0.shape[1]):
            go_on(outside)
            for j in range(out0.shape[2]):
                value = point(look(field0, (b, i0, j), outside, (), (), ()))
                out0[b, i0, j] = stored(value, out0)
