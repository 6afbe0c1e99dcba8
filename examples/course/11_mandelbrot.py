# %% [markdown]
# # The Mandelbrot set
#
# How many steps a point takes to leave the circle is a function of two numbers, with a loop and
# an early `return`. The two loops over the picture are what a ufunc is for.

# %% In plain Python
from pathlib import Path

import matplotlib.pyplot as plt
import numba
import numpy as np
from timing import compare

import ninepoint as npt

MOST = 50


def steps(x, y, most=MOST):
    c = complex(x, y)
    z = 0.0j
    for n in range(most):
        z = z * z + c
        if z.real * z.real + z.imag * z.imag >= 4:
            return n
    return most


def picture(width, height):
    """The coordinates of the pixels: x of the columns, y of the rows."""
    x = np.float32(-2) + np.arange(width, dtype=np.float32) * np.float32(3 / width)
    y = np.float32(-1) + np.arange(height, dtype=np.float32) * np.float32(2 / height)
    return x, y[:, np.newaxis]


x, y = picture(96, 64)
plain = np.array([[steps(a, b, MOST) for a in x] for b in y[:, 0]], np.uint8)

# %% [markdown]
# The number of steps has a default, so it is a scalar: the same compiled code takes another one.
# The two arrays broadcast, a row of x against a column of y, and no grid of points is made.

# %% A function of numbers
mandelbrot = npt.ufunc(dtype=np.uint8, overflow="saturate")(steps)
assert np.array_equal(mandelbrot(x, y), plain)

# %% Beside Numba
steps_numba = numba.njit(numba.uint32(numba.float32, numba.float32, numba.uint32))(steps)


@numba.njit
def fill(x, y, image, most):
    for row in range(image.shape[0]):
        for column in range(image.shape[1]):
            image[row, column] = steps_numba(x[column], y[row, 0], most)


vectorized = numba.vectorize(["uint8(float32, float32, uint32)"])(steps)

x, y = picture(1536, 1024)
image = np.zeros((1024, 1536), np.uint8)
fill(x, y, image, MOST)
made = mandelbrot(x, y)
assert made.shape == image.shape
assert np.array_equal(made, image)
compare(
    Numba_loops=lambda: fill(x, y, image, MOST),
    Numba_vectorize=lambda: vectorized(x, y, MOST),
    ninepoint_one_thread=lambda: mandelbrot(x, y, threads=1),
    ninepoint=lambda: mandelbrot(x, y),
)

# %% The picture
figure, axes = plt.subplots(figsize=(9, 6), layout="constrained")
axes.imshow(made, extent=(-2, 1, -1, 1), origin="lower", cmap="magma")
axes.set_xlabel("x")
axes.set_ylabel("y")
output = Path("course-output")
output.mkdir(exist_ok=True)
figure.savefig(output / "mandelbrot.png", dpi=100)
