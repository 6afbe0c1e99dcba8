"""A call and its options: what every target takes, or refuses in the same words."""

import numpy as np

import ninepoint as npt

FILM = np.random.default_rng(0).integers(0, 200, (7, 8, 9)).astype("int16")


@npt.stencil(boundary="nearest")
def kernel(x, by=2):
    return by * x[-1, 0] + x[0, 1] - x[0, 0] // 2


def fits():
    return np.empty((7, 8, 9), "int64")


OPTIONS = {
    "none": lambda: {},
    "out": lambda: {"out": fits()},
    "out of another shape": lambda: {"out": np.empty((7, 8), "int64")},
    "out of another dtype": lambda: {"out": np.empty((7, 8, 9), "int8")},
    "out of a list": lambda: {"out": [fits()]},
    "out is read-only": lambda: {"out": np.broadcast_to(np.int64(0), (7, 8, 9))},
    "out overlaps itself": lambda: {
        "out": np.lib.stride_tricks.as_strided(np.empty(600), (7, 8, 9), (64, 8, 8)).view("int64")
    },
    "two outs": lambda: {"out": (fits(), fits())},
    "out and axes": lambda: {"axes": (2, 0), "out": fits()},
    "out and valid": lambda: {"boundary": "valid", "out": np.empty((7, 7, 8), "int64")},
    "axes": lambda: {"axes": (0, 1)},
    "axes in another order": lambda: {"axes": [2, 0]},
    "axes from the end": lambda: {"axes": (-1, -3)},
    "one axis": lambda: {"axes": 1},
    "axes that do not exist": lambda: {"axes": (1, 3)},
    "one axis twice": lambda: {"axes": (1, 1)},
    "axes of a text": lambda: {"axes": "xy"},
    "axes of floats": lambda: {"axes": (0.0, 1.0)},
    "axes of truths": lambda: {"axes": (True, False)},
    "dims": lambda: {"dims": ("t", "x")},
    "one dim": lambda: {"dims": "x"},
    "dims that do not exist": lambda: {"dims": ("x", "q")},
    "dims of a number": lambda: {"dims": 5},
    "dims and axes": lambda: {"dims": ("t", "x"), "axes": (0, 2)},
    "dims and out": lambda: {"dims": ("t", "x"), "out": fits()},
    "boundary": lambda: {"boundary": "wrap"},
    "boundary for each side": lambda: {"boundary": (("fill", "mirror"), "keep"), "cval": 3},
    "keep": lambda: {"boundary": "keep"},
    "valid": lambda: {"boundary": "valid"},
    "valid and axes": lambda: {"boundary": "valid", "axes": (0, 1)},
    "unknown boundary": lambda: {"boundary": "reflekt"},
    "too many boundaries": lambda: {"boundary": ("wrap", "wrap", "wrap")},
    "boundary of a number": lambda: {"boundary": 5},
    "cval": lambda: {"boundary": "fill", "cval": 7},
    "cval too large": lambda: {"boundary": "constant", "cval": 2**40},
    "cval of a text": lambda: {"boundary": "fill", "cval": "a"},
    "dtype": lambda: {"dtype": "float32"},
    "dtype and overflow": lambda: {"dtype": "uint8", "overflow": "saturate"},
    "dtype without overflow": lambda: {"dtype": "uint8"},
    "dtype of objects": lambda: {"dtype": object},
    "two dtypes": lambda: {"dtype": ("int64", "int64")},
    "unknown overflow": lambda: {"overflow": "clip"},
    "every": lambda: {"every": (2, 3)},
    "every and axes": lambda: {"every": (2, 3), "axes": (0, 1)},
    "every and valid": lambda: {"every": 2, "boundary": "valid"},
    "every and keep": lambda: {"every": [1, 2], "boundary": "keep"},
    "every and out": lambda: {"every": 4, "out": np.empty((7, 2, 3), "int64")},
    "every and a larger out": lambda: {"every": 4, "out": fits()},
    "every point": lambda: {"every": 1},
    "every of nothing": lambda: {"every": 0},
    "every of less than nothing": lambda: {"every": (1, -2)},
    "every of a float": lambda: {"every": 2.0},
    "every of a truth": lambda: {"every": True},
    "every of a text": lambda: {"every": "2"},
    "every of too many": lambda: {"every": (2, 2, 2)},
    "every of none": lambda: {"every": ()},
    "threads": lambda: {"threads": 2},
    "no threads": lambda: {"threads": 0},
    "threads of a text": lambda: {"threads": "two"},
    "a scalar by name": lambda: {"by": 3},
    "an unknown name": lambda: {"mode": "wrap"},
    "the field twice": lambda: {"x": 1},
}
