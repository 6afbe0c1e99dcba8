# %% [markdown]
# # A mean filter for a stack of images
#
# The Dask blog of 2019 puts a stencil of Numba, its compiler, a gufunc of NumPy and a Dask array
# together, and ends with a list of wishes. This is each of its steps, beside what the step is
# here.

# %% The whole program
import tempfile
from glob import glob
from pathlib import Path
from time import perf_counter
from timeit import repeat

import dask.array as da
import numba
import numpy as np
import skimage
from scipy import ndimage

import ninepoint as npt


@npt.stencil
def smooth(x):
    return (x[-1, -1] + x[-1, 0] + x[-1, 1] +
            x[ 0, -1] + x[ 0, 0] + x[ 0, 1] +
            x[ 1, -1] + x[ 1, 0] + x[ 1, 1]) // 9  # fmt: skip


x = da.ones((1_000_000, 1000, 1000), chunks=("auto", -1, -1), dtype="int8")
y = smooth(x)
assert y.shape == x.shape
assert y.dtype == np.int8
assert y[999_999, :3, :3].compute().tolist() == [[0, 0, 0], [0, 1, 1], [0, 1, 1]]


# %% [markdown]
# The loops that a stencil spares: two for the pixels, with the border left out.


# %% Loops by hand
def loops(x):
    made = np.zeros_like(x)
    for i in range(1, x.shape[0] - 1):
        for j in range(1, x.shape[1] - 1):
            made[i, j] = x[i - 1 : i + 2, j - 1 : j + 2].sum() // 9
    return made


x = np.random.default_rng(0).integers(0, 1000, (100, 100)).astype(float)
assert np.array_equal(smooth(x), loops(x))


# %% A stencil of Numba
@numba.stencil
def mean_of_nine(x):
    return (x[-1, -1] + x[-1, 0] + x[-1, 1] +
            x[ 0, -1] + x[ 0, 0] + x[ 0, 1] +
            x[ 1, -1] + x[ 1, 0] + x[ 1, 1]) // 9  # fmt: skip


@numba.njit
def compiled(x):
    return mean_of_nine(x)


assert np.array_equal(smooth(x), compiled(x))

# %% The times
start = perf_counter()
assert np.array_equal(smooth(x), mean_of_nine(x))
print(f"numba.stencil as it is      {1e6 * (perf_counter() - start):10.1f} µs")
for name, function in {"numba.stencil and njit": compiled, "ninepoint": smooth}.items():
    best = min(repeat(lambda function=function: function(x), number=200, repeat=5)) / 200
    print(f"{name:27s} {1e6 * best:10.1f} µs")

# %% [markdown]
# SciPy has this filter, and so has ninepoint. Both compute the border as well.

# %% The filter that exists
mean = npt.filters.mean(x, size=3)
np.testing.assert_allclose(mean, ndimage.uniform_filter(x, 3), rtol=1e-12)
assert np.array_equal(np.floor(mean + 1e-9)[1:-1, 1:-1], smooth(x)[1:-1, 1:-1])

# %% [markdown]
# A folder of images, each read, filtered and written, one after the other; then the same as two
# lines, which read and write several at once.

# %% A loop over files
temporary = tempfile.TemporaryDirectory()
folder = Path(temporary.name)
pictures = np.random.default_rng(1).integers(0, 256, (8, 120, 160), dtype=np.uint8)
npt.imsave(pictures, folder / "in/{:02d}.png", progress=False)

for name in sorted(glob(f"{folder}/in/*.png")):
    image = skimage.io.imread(name)
    made = compiled(image.astype(float)).astype(np.uint8)
    skimage.io.imsave(folder / f"{Path(name).stem}.out.png", made, check_contrast=False)

# %% Images as one array
frames = npt.imread(folder / "in/*.png")
saved = npt.imsave(smooth(frames), folder / "out/{:02d}.png", progress=False)
assert len(saved) == len(pictures)
for name in saved:
    theirs = skimage.io.imread(folder / f"{Path(name).stem}.out.png")
    assert np.array_equal(skimage.io.imread(name), theirs)

# %% [markdown]
# `map_blocks` works with a stencil, for it is a function of NumPy arrays. The stencil itself does
# the same, and right where an image is in several chunks.

# %% Blocks, and no blocks
mapped = frames.map_blocks(smooth, dtype=np.uint8)
assert (mapped == smooth(frames)).all().compute()
in_pieces = smooth(frames.rechunk((3, 50, 70)))
assert (in_pieces == smooth(frames)).all().compute()


# %% [markdown]
# The gufunc of Numba declares its types, and writes into its last parameter.


# %% A gufunc
@numba.guvectorize([(numba.int8[:, :], numba.int8[:, :])], "(n, m) -> (n, m)")
def with_numba(x, out):
    out[:] = mean_of_nine(x)


stack = np.random.default_rng(2).integers(-128, 128, (20, 200, 300), dtype=np.int8)
assert np.array_equal(smooth(stack), with_numba(stack))
lazy = da.from_array(stack, chunks=(5, -1, -1))
assert np.array_equal(smooth(lazy).compute(), with_numba(lazy).compute())
for name, function in {"Numba": with_numba, "ninepoint": smooth}.items():
    best = min(repeat(lambda function=function: function(stack), number=3, repeat=5)) / 3
    print(f"{name:12s} 20 images of 200 x 300: {1e3 * best:7.3f} ms")

# %% [markdown]
# ## The wishes
#
# 1. No types: they follow from the arrays, and the results' from the kernel.

# %% Types as they arrive
for dtype in (np.int8, np.uint8, np.uint16, np.float32, np.float64):
    assert smooth(np.ones((4, 5), dtype)).dtype == dtype

# %% [markdown]
# 2. A graphics card: arrays of CuPy are computed where they are.
# 3. One decorator, directly on the kernel: it is `@npt.stencil`, and nothing is around it.
# 4. Return the result: a stencil does, and so does a body that is no stencil, under
# `@npt.gufunc`.


# %% Return the result
@npt.gufunc("(n,m)->(n,m)")
def stretched(image):
    least, most = image.min(), image.max()
    return (image - least) / (most - least)


made = stretched(frames)
assert made.dtype == np.float64
low, high = pictures[3].min(), pictures[3].max()
np.testing.assert_allclose(made[3].compute(), (pictures[3] - float(low)) / (int(high) - int(low)))

# %% [markdown]
# 5. Save images: `npt.imsave`, with a few frames in memory at a time.
#
# So the program that the post would like to see is this one.

# %% From folder to folder
x = npt.imread(folder / "in/*.png")
y = smooth(x)
npt.imsave(y, folder / "again/{:04d}.png", progress=False)
assert len(list((folder / "again").glob("*.png"))) == len(pictures)
temporary.cleanup()
