"""`Stencil.iterate` is so many calls, each on the result of the one before; also in processes."""

import inspect
import os
import pickle
import pydoc
import shutil
import subprocess
import sys
from importlib.util import find_spec

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr

import ninepoint as npt
from compared import most_memory, one_by_one, refuses, same, whole
from ninepoint import Schedule
from own_process import on_threads
from seams import interpreted

ONE, THREE, FOUR = Schedule(steps=1), Schedule(steps=3), Schedule(steps=4)
MIXED = (("fill", "keep"), ("mirror", "constant"))


@npt.stencil(schedule=FOUR, boundary="keep")
def heat(u, r=0.25):
    return u[0, 0] + r * (u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1] - 4 * u[0, 0])


@npt.stencil(schedule=FOUR, boundary="wrap")
def wave(u, before, speed):
    around = u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1]
    return 2 * u[0, 0] - before[0, 0] + speed[0, 0] * (around - 4 * u[0, 0]), u[0, 0]


@npt.stencil(schedule=FOUR, boundary="wrap")
def life(x):
    n = x[-1:2, -1:2].sum() - x[0, 0]
    return (n == 3) | ((n == 2) & (x[0, 0] == 1))


driven = npt.stencil(schedule=FOUR, boundary="nearest")(
    lambda u, amplitude=0.0: (u[-1] + u[0] + u[1]) / 3 + amplitude
)
ahead = npt.stencil(lambda u, c: u[1] * 0.5 + u[2] * 0.25 + c[1], schedule=FOUR, boundary="wrap")


@npt.stencil(schedule=THREE, boundary=("fill", "keep", "wrap"), cval=3)
def star(u):
    return u[0, 0, 0] / 2 + (u[-1, 0, 0] + u[1, 0, 0] + u[0, -1, 1] + u[0, 1, -1]) / 8


@npt.stencil(boundary="reflect")
def laplace(u):
    return u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1] - 4 * u[0, 0]


drift = npt.stencil(lambda u: u[0, -1] / 2 + u[1, 0] / 4, boundary="keep", cval=2)


@npt.stencil(schedule=FOUR, dtype=("float32", "float32"), boundary="wrap")
def react(u, v, feed=0.03):
    lu, lv = laplace(u), laplace(v)
    away = u[0, 0] * v[0, 0]
    return u[0, 0] + 0.2 * lu[0, 0] - away + feed, v[0, 0] + 0.1 * lv[0, 0] + away


@npt.stencil(schedule=THREE, dtype="float32", boundary=MIXED, cval=3)
def stirred(u, c, far=1):
    s = drift(u)
    t = laplace(s, boundary="reflect")
    around = laplace(u, boundary="constant", cval=far)
    return u[0, 1] / 4 + s[0, 1] / 4 + t[1, 0] / 8 + around[0, 0] * c[0, 1] / 800


def image(dtype="float32", shape=(41, 53), seed=0):
    return whole(*shape, dtype=dtype, seed=seed)


@pytest.mark.parametrize("boundary", ["keep", "wrap", MIXED], ids=str)
def test_steps_in_one_pass_are_calls_one_by_one(boundary):
    options = {"boundary": boundary, "cval": 3}
    x = image(shape=(130, 150))
    wanted = one_by_one(heat, x, steps=7, **options)
    for threads in (1, 2, 3):
        same(heat.iterate(x, steps=7, threads=threads, **options), wanted)
    lazy = da.from_array(x, chunks=((60, 40, 30), (90, 60)))
    made = heat.iterate(lazy, steps=7, **options)
    assert isinstance(made, da.Array)
    assert made.chunks == lazy.chunks
    # One layer serves several steps.
    assert len(made.dask.layers) < 6
    same(made, wanted)


PASSES = {
    "to one side": (ahead, 1, [image(shape=(200,)), image(shape=(200,), seed=1)]),
    "booleans": (life, 1, [image("bool") & (image(seed=5) > 60)]),
    "planes": (star, 1, [image(shape=(9, 11, 13))]),
    "two calls": (react, 2, [image() / 100, image(seed=3) / 100]),
    "three calls": (stirred, 1, [image(shape=(17, 19)), image(shape=(17, 19), seed=3)]),
}


@pytest.mark.parametrize("name", PASSES)
def test_steps_of_any_kind_are_done_in_one_pass(name):
    step, count, fields = PASSES[name]
    assert "in a pass over memory" in step.iterate.explain(*fields, steps=7)
    state, rest = fields[:count], fields[count:]
    with interpreted():
        wanted = one_by_one(step, *state, rest=rest, steps=7)
        for threads in (1, 2):
            same(step.iterate(*fields, steps=7, threads=threads), wanted)


@pytest.mark.parametrize(
    ("step", "shape"), [(star, (20, 700, 180)), (heat, (30, 24000))], ids=["planes", "rows"]
)
def test_so_they_are_by_machine_code_in_tiles(step, shape):
    # Another stencil: the one above may be interpreted.
    border = ("keep", "fill", "wrap")[: len(shape)]
    step = npt.stencil(schedule=THREE, boundary=border)(step.__wrapped__)
    state = image(shape=shape) / 100
    same(step.iterate(state, steps=4, threads=2), one_by_one(step, state, steps=4))


def test_several_states_calls_and_an_array_that_no_cache_holds():
    u, speed = image("float64"), image("float64", (2, 41, 53), seed=1) / 400
    made = wave.iterate(u, u, speed, steps=6)
    same(made, one_by_one(wave, np.stack([u, u]), np.stack([u, u]), steps=6, rest=(speed,)))
    eager = npt.stencil(boundary="keep")(heat.__wrapped__)
    x = image(shape=(1500, 1500))
    same(eager.iterate(x, steps=33), one_by_one(eager, x, steps=33))
    e, h, _ = states(12, 11)
    wanted, seen = one_by_one(field, e, h, steps=97), {}
    # Kept by who looks at it.
    same(
        field.iterate(e, h, steps=97, every=12, callback=lambda k, *s: seen.update({k: s})), wanted
    )
    for step, state in seen.items():
        same(state, one_by_one(field, e, h, steps=step))
    assert list(seen) == [*range(12, 97, 12), 97]
    # In the place of the states.
    field.iterate(e, h, steps=97, out=(e, h))
    same((e, h), wanted)


def test_steps_of_four_axes_are_done_one_after_the_other(as_python):
    @npt.stencil(boundary="reflect", schedule=FOUR)
    def blur(u, c):
        return (u[-1, 0, 0, 0] + u[0, 1, 0, 0] + u[0, 0, 1, 0] + u[0, 0, 0, 2] + c[0, 0, 0, 0]) / 5

    x, c = image(shape=(5, 4, 6, 7)), image(shape=(4, 6, 7), seed=2)
    words = "one after the other: of more than 3 axes no rows are kept beyond the ends"
    assert words in blur.iterate.explain(x, c, steps=5)
    same(blur.iterate(x, c, steps=5), one_by_one(blur, x, steps=5, rest=(c,)))


def test_steps_of_float_windows_in_one_pass_give_the_bits_of_calls(tmp_path, monkeypatch):
    monkeypatch.setenv("NINEPOINT_CACHE_DIR", str(tmp_path))

    @npt.stencil(boundary="nearest", schedule=THREE)
    def averaged(x):
        return x[-2:3, -1:2].mean()

    state = np.random.default_rng(0).random((40, 53), dtype="float32")
    same(averaged.iterate(state, steps=3), one_by_one(averaged, state, steps=3))
    # Besides that of a call there is a kernel of three steps.
    assert len(list(tmp_path.glob("averaged_*.o"))) == 2


# Steps of small arrays, whose calls are bound once.
@npt.stencil(boundary="wrap")
def pair(u, v, c, rate):
    return u[0, 0] + rate * c[0, 0] * (v[0, 1] - v[-1, 0]), v[0, 0] - rate * (u[1, 0] - u[0, -1])


slope = npt.stencil(lambda e, h: e[0, 0] - 0.5 * (h[0, 0] - h[-1, 0]), boundary="keep")


@npt.stencil(boundary="keep")
def field(e, h):
    s = slope(e, h)
    return s[0, 0], h[0, 0] - 0.7 * (s[1, 0] - s[0, 0])


def states(*shape):
    return list(np.random.default_rng(0).random((3, *shape)))


@pytest.mark.parametrize(("shape", "threads"), [((9, 14), 1), ((2, 3, 7, 5), 1), ((140, 130), 2)])
def test_steps_of_small_arrays_are_single_calls(shape, threads):
    u, v, c = states(*shape)
    before = np.array((u, v, c))
    made = pair.iterate(u, v, c, 0.1, steps=60, threads=threads)
    same(made, one_by_one(pair, u, v, rest=(c, 0.1), steps=60))
    same(np.array((u, v, c)), before)


def with_each(step, x, values):
    """The calls, with a value for each."""
    for value in values:
        x = step(x, value)
    return x


def test_scalars_for_each_step():
    x = image("float64", (99,))
    for values in ([k / 8 for k in range(10)], [0] * 6 + [0.5] * 4):
        # A whole number at first does not cut those that follow.
        asked, wanted = [], with_each(driven, x, values[:9])
        called = lambda k, a=asked, v=values: a.append(k) or v[k]  # noqa: E731
        for given in (np.array(values), values, called):
            same(driven.iterate(x, given, steps=9), wanted)
            same(driven.iterate(da.from_array(x, chunks=50), given, steps=9), wanted)
        # Once for each step, in their order.
        assert (asked[:9], len(asked)) == ([*range(9)], 18)


scaled = npt.stencil(lambda x, k=1.0: k * x[0], boundary="nearest")


@npt.stencil(boundary="nearest", schedule=FOUR)
def walled(u, r=1.0):
    inside = scaled(u, 0.5, boundary="constant", cval=r)
    beside = scaled(u, boundary="constant", cval=r)
    return inside[-1] + beside[1]


def test_options_of_calls_inside_differ_from_step_to_step_and_no_steps_take_no_values():
    x, values = image("float64", (99,)), [1.0, 2.0, 3.0, 0.5]
    with interpreted():
        same(walled.iterate(x, values, steps=4), with_each(walled, x, values))
    masked = npt.stencil(lambda u, k: u[0] & k)
    same(masked.iterate(np.arange(5), [], steps=0), np.arange(5))


def test_callback_may_change_the_state_and_end_the_iteration():
    def source(step, u):
        u[20, 20] += step
        return step >= 5

    wanted = image()
    for step in range(1, 6):
        wanted = heat(wanted)
        wanted[20, 20] += step
    same(heat.iterate(image(), steps=100, every=1, callback=source), wanted)


@pytest.mark.parametrize("until", [None, 1e-3, 0.05, np.inf])
@pytest.mark.parametrize("every", [None, 1, 4])
def test_looks_and_until_little_changes(until, every):
    state, kept = np.zeros((2, 30, 40)), {}
    state[1, 20, 30] = 9.0
    states = [state]
    for step in range(1, 39):
        states.append(heat(states[-1]))
        looked = every is None or step % every == 0
        if until is not None and looked and np.max(np.abs(states[-1] - states[-2])) <= until:
            break
    options = {} if every is None else {"every": every, "callback": kept.__setitem__}
    same(heat.iterate(state, steps=38, until=until, **options), states[-1])
    if every is not None:
        assert list(kept) == [k for k in range(1, step + 1) if k % every == 0 or k == step]
    # What was kept is not written to by later steps.
    for step, one in kept.items():
        same(one, states[step])


turn = npt.stencil(lambda x: x[1], boundary="wrap")


def looks(x, **options):
    """The steps at which somebody looks."""
    looked = []
    turn.iterate(x, steps=3, callback=lambda step, u: looked.append(step), **options)
    return looked


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64"])
def test_until_on_integers_does_not_overflow(dtype):
    info = np.iinfo(dtype)
    assert looks(np.array([info.min, info.max] * 4, dtype), until=0.5) == [1, 2, 3]


def test_until_with_truths_infinities_and_nan():
    assert looks(np.array([True, False] * 4), until=0.5) == [1, 2, 3]
    assert looks(np.full(4, np.inf), until=0) == [1]
    assert looks(np.array([np.inf, np.nan, np.inf, np.inf]), until=1e9) == [1, 2, 3]


def test_progress_and_what_steps_in_chunks_take_are_told(capsys):
    told = []
    heat.iterate(image(), steps=10, progress=lambda *both: told.append(both))
    assert told == [(4, 10), (8, 10), (9, 10), (10, 10)]
    # A program sees nothing by default, however long it takes.
    for progress in (True, None):
        heat.iterate(image(), steps=10, progress=progress)
        assert ("steps" in capsys.readouterr().err) == bool(progress)
    x = da.zeros((400, 400), chunks=100)
    text = heat.iterate.explain(x, 0.2, steps=202, boundary="wrap")
    assert text.startswith("Give each thread ")
    assert "on Dask     heat*4: edges, " in text
    assert "51 exchanges like that, of up to 4 each" in text
    assert str(inspect.signature(heat.iterate)).startswith("(*args")
    assert "Apply the stencil again and again" in pydoc.render_doc(heat.iterate)
    assert pickle.loads(pickle.dumps(heat.iterate))(image(), steps=0).shape == (41, 53)


def test_dask_goes_on_from_the_state_at_a_look_and_ends_graphs_that_would_grow(limited):
    x = image("float64", (40,))
    made = []
    lazy = da.from_array(x, chunks=20).map_blocks(lambda b: made.append(1) or b, meta=x[:0])
    with dask.config.set(scheduler="sync"):
        got = driven.iterate(lazy, steps=9, every=2, until=0, callback=lambda step, u: step > 7)
        assert len(made) == lazy.npartitions
        same(got, one_by_one(driven, x, steps=8))
        assert len(made) == lazy.npartitions
    limited(later_tasks=8)
    limited(later_steps=2)
    x = image("float64", (40,))
    with dask.config.set(scheduler="sync"):
        made = driven.iterate(da.from_array(x, chunks=20), steps=200)
    # On groups of thin chunks an exchange has three layers.
    assert len(made.dask.layers) < 9
    same(made, one_by_one(driven, x, steps=200))


@npt.stencil(boundary="wrap")
def driven_by(u, v, k):
    s = k[1, 0] - k[0, 0]
    return u[0, 1] - 2 * u[0, 0] + u[0, -1] + s, v[1, 0] + u[0, 0]


@pytest.mark.parametrize("chunks", [None, 9])
def test_xarray_in_other_orders(chunks):
    a, b, c = (image("float64", (20, 30), seed=k) for k in range(3))
    u = xr.DataArray(a, dims=("y", "x"), coords={"x": np.arange(30)}, name="u")
    v = xr.DataArray(b, dims=("y", "x")).transpose("x", "y")
    k = xr.DataArray(np.stack([c, c + 1]), dims=("t", "y", "x")).transpose("x", "t", "y")
    seen = []
    fields = (x if chunks is None else x.chunk(chunks) for x in (u, v, k))
    found = driven_by.iterate(*fields, steps=9, every=4, callback=lambda *at: seen.append(at))
    wanted = driven_by.iterate(a, b, np.stack([c, c + 1]), steps=9)
    for got, want in zip(found, wanted, strict=True):
        assert got.chunks is None or chunks is not None
        same(got.transpose("t", "y", "x").values, want)
        same(got.x, u.x)
    assert [step for step, *_ in seen] == [4, 8, 9]
    xr.testing.assert_identical(seen[-1][1].compute(), found[0].compute())
    shown = [*found, *(state for _, *states in seen for state in states)]
    assert all(one.dims == ("y", "x", "t") for one in shown)
    assert driven_by.iterate(u, v, k, steps=0)[1].dims == ("x", "y")


# Mistakes; others are on the page of messages about steps.
inner = npt.stencil(lambda u: u[-1, 0] + u[1, 0], boundary="valid")


@npt.stencil(boundary="nearest", dtype="float64")
def narrows(u):
    s = inner(u)
    return s[0, 0] + s[1, 0]


STATE = image("float64", (12, 9))
# What is wrong of the options of `heat`, and of `laplace` after it, on any kind of array.
WRONG = [
    ({"until": "a"}, TypeError, "until='a' must be a number"),
    ({"until": True}, TypeError, "until=True must be a number"),
    ({"until": float("nan")}, ValueError, "until=nan must be 0 or more"),
    ({"progress": "yes"}, TypeError, "progress='yes' must be True, False or a function"),
    ({"every": 1.0}, ValueError, "every=1.0 must be a whole number"),
    ({"steps": True}, ValueError, "steps=True must be a whole number"),
    ({"threads": 0}, ValueError, "threads=0 is less than 1"),
    ({"boundary": "reflekt"}, ValueError, "reflekt"),
    ({"boundary": "valid"}, ValueError, "makes the state smaller"),
    ({"r": [1.0, 2.0]}, ValueError, "'r' has 2 values, but there are 3 steps"),
    *(
        ({name: None}, TypeError, f"'{name}=' is an option of calls only")
        for name in ("axes", "dims", "dtype", "overflow")
    ),
]


cooled = npt.stencil(lambda u, r=0.25: u[0, 0] + r * laplace(u)[0, 0], boundary="keep")


@pytest.mark.parametrize(("options", "error", "words"), WRONG, ids=lambda one: str(one)[:30])
def test_wrong_steps_are_refused_before_the_first(options, error, words):
    lazy = da.from_array(STATE, chunks=4)
    for x in (STATE, lazy, xr.DataArray(STATE), xr.DataArray(lazy)):
        seen = []
        given = {"steps": 3, "every": 1, "callback": lambda k, u, s=seen: s.append(k)} | options
        for step in (heat, cooled):
            refuses(error, words, step.iterate, x, **given)
        assert not seen


def test_what_is_no_next_state_is_refused():
    lazy = da.from_array(STATE, chunks=4)
    for x in (STATE, lazy):
        with pytest.raises(
            ValueError, match=r'\(10, 9\) after a step, and \(12, 9\) before.*"valid"'
        ):
            narrows.iterate(x, steps=2)
    refuses(TypeError, "masked", heat.iterate, np.ma.masked_array(STATE), steps=2)
    for x in (lazy, xr.DataArray(STATE), xr.DataArray(lazy)):
        for step in (heat, cooled):
            with pytest.raises(TypeError, match="out= is for NumPy arrays"):
                step.iterate(x, steps=1, out=np.empty(STATE.shape))


@pytest.mark.parametrize("schedule", [FOUR, ONE], ids=["chained", "single"])
def test_two_states_are_held_however_many_steps(schedule):
    stencil = npt.stencil(boundary="keep", schedule=schedule)(heat.__wrapped__)
    x = np.zeros((1000, 1000), "float32")
    x[::100, ::100] = 1  # which goes on spreading
    stencil.iterate(x, steps=8, threads=1)  # compiled, and imported
    most = most_memory(lambda: stencil.iterate(x, steps=40, threads=1, until=0, every=8))
    # The ends take 2 * 4 * 9 rows and columns, the comparison 1 MB.
    assert most < 2 * x.nbytes + 2_500_000


@pytest.mark.parametrize("steps", [0, 1, 2, 11])
def test_out_takes_the_last_state(steps):
    x, seen = image(), []
    wanted = heat.iterate(x, steps=steps)
    assert not np.may_share_memory(wanted, x)
    out, own, long, wide = x * 0, x.copy(), np.concatenate([x, x]), np.zeros((41, 106), "float32")
    # A new array, the input itself, a view that overlaps it, and one that is not contiguous.
    for given, into in ((x, out), (own, own), (long[:41], long[5:46]), (x, wide[:, ::2])):
        assert heat.iterate(given, steps=steps, out=into) is into
        same(into, wanted)
    same(image(), x)
    # Beside a callback, which keeps what it gets.
    heat.iterate(x, steps=steps, out=out, callback=lambda step, u: seen.append(u), every=2)
    same(out, wanted)
    assert not any(one is out for one in seen)


@npt.stencil(boundary="nearest")
def pushed(u, amplitude=0.0):
    return (u[-1] + u[0] + u[2]) / 3 + amplitude


@npt.stencil
def placed(u):
    return u[-1] / 2 + u[1] / 4 + npt.index()


@pytest.mark.parametrize(("pushed", "size", "n", "rule"), [
    (pushed, 3, 5, "wrap"), (pushed, 4, 3, "nearest"), (pushed, 3, 40, "keep"),
    (placed, 3, 50, "wrap"), (placed, 3, 50, "fill"),
])  # fmt: skip
def test_parts_together_are_the_state(pushed, size, n, rule):
    u = np.random.default_rng(n).random((2, n))
    options = {"steps": 11, "boundary": rule, "threads": 1}

    def part(comm):
        return pushed.iterate(npt.distribute(u, comm, axis=-1), **options, comm=comm)

    same(np.concatenate(on_threads(size, part), -1), pushed.iterate(u, **options))

    def told(comm):
        return pushed.iterate.explain(npt.distribute(u[0], comm), **options, comm=comm)

    assert all(text.startswith("Give each process ") for text in on_threads(size, told))


def test_until_callback_scalars_and_out():
    u = np.random.default_rng(0).random(50)
    seen: list = [[], [], []]
    options = {"steps": 400, "until": 1e-3, "every": 7, "amplitude": lambda step: 1 / (step + 1)}

    def part(comm):
        mine, told = npt.distribute(u, comm), seen[comm.Get_rank()]

        def change(step, state):
            told.append((step, state.copy()))
            state[0] = 1

        assert pushed.iterate(mine, callback=change, **options, comm=comm, out=mine) is mine
        return mine

    made = np.concatenate(on_threads(3, part))
    ends = np.cumsum([0, *(len(told[0][1]) for told in seen[:2])])
    whole: list = []

    def look(step, state):
        whole.append((step, state.copy()))
        state[ends] = 1

    same(made, pushed.iterate(u, callback=look, **options))
    for parts, (step, state) in zip(zip(*seen, strict=True), whole, strict=True):
        assert {one for one, _ in parts} == {step}
        same(np.concatenate([one for _, one in parts]), state)


@pytest.mark.parametrize(("words", "name", "values"), [
    ("has steps= ., and process . has", "steps", [4, 3]),
    ("has the types", "u", [np.zeros(9), np.zeros(9, "f4")]),
    ("axes, and the stencil 1", "u", [np.zeros(9), np.zeros(())]),
    ("stencil and numbers", "amplitude", [1.0, 2.0]),
])  # fmt: skip
def test_parts_that_do_not_go_together(words, name, values):
    def part(comm):
        given = {"u": np.zeros(9), "steps": 3} | {name: values[comm.Get_rank()]}
        refuses(ValueError, words, pushed.iterate, **given, comm=comm)

    on_threads(2, part)


def test_what_is_no_communicator_and_no_axis():
    refuses(TypeError, "communicator of mpi4py", pushed.iterate, np.zeros(9), steps=1, comm=3)
    refuses(ValueError, "axis=2 does not exist", npt.distribute, np.zeros(3), None, axis=2)


SCRIPT = """
import numpy as np
from mpi4py import MPI
import ninepoint as npt

@npt.stencil(boundary="wrap")
def drift(u, c=0.5):
    return u[0, 0] + c * (u[-2, 0] - u[0, 1])

u = np.random.default_rng(0).random((21, 8))
local = npt.distribute(u, MPI.COMM_WORLD)
local = drift.iterate(local, steps=40, until=1e-9, every=10, comm=MPI.COMM_WORLD)
parts = MPI.COMM_WORLD.gather(local)
if parts:
    wanted = drift.iterate(u, steps=40, until=1e-9, every=10)
    np.testing.assert_array_equal(np.concatenate(parts), wanted)
    print("equal", len(parts))
"""


def test_processes_of_mpi(tmp_path):
    run = shutil.which("mpiexec", path=f"{sys.prefix}/bin") or shutil.which("mpiexec")
    if run is None or find_spec("mpi4py") is None:
        pytest.skip("needs mpi4py and an MPI")
    script = tmp_path / "drift.py"
    script.write_text(SCRIPT)
    # Open MPI asks before it runs as root, or on fewer cores.
    allowed = dict.fromkeys(("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"), "1")
    allowed["PRTE_MCA_rmaps_default_mapping_policy"] = ":oversubscribe"
    done = subprocess.run(
        [run, "-n", "2", sys.executable, script],
        capture_output=True, text=True, timeout=300, env=os.environ | allowed,
    )  # fmt: skip
    assert "equal 2" in done.stdout, done.stderr


far = npt.stencil(lambda x: x[2, 0] * 3, boundary="mirror")


@npt.stencil(boundary="mirror")
def with_far(u, x):
    y = far(x)
    return u[0, 0] + y[1, 0] + y[2, 1]


@npt.stencil(boundary="mirror")
def with_far_before(u, x):
    y = far(x)
    return u[0, 0] + y[-3, 0] + y[-4, -1]


@pytest.mark.parametrize(("step", "ranks"), [(with_far, 2), (with_far_before, 3)])
def test_stages_that_look_to_one_side_are_mirrored(step, ranks):
    u, x = np.zeros((15, 3)), np.arange(45.0).reshape(15, 3) ** 2

    def part(comm):
        return step.iterate(npt.distribute(u, comm), npt.distribute(x, comm), steps=2, comm=comm)

    same(np.concatenate(on_threads(ranks, part)), step.iterate(u, x, steps=2))
