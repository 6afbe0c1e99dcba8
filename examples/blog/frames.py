# %% [markdown]
# # Ten thousand frames in four gigabytes
#
# The notebook on stencils among Dask's examples: frames of random numbers, each smoothed, and the
# greatest number of all, by one worker with four threads. `python frames.py 500` does it with 500
# frames.

# %% Loops, and a stencil instead of them
import sys
from time import perf_counter

import dask.array as da
import numba
import numpy as np
from dask.distributed import Client
from distributed.diagnostics import MemorySampler

import ninepoint as npt

# In a notebook the arguments are those of the kernel, of which none is a number.
counts = [int(argument) for argument in sys.argv[1:] if argument.isdecimal()]
FRAMES = counts[0] if counts else 10_000
LIMIT = 4_000_000_000


def loops(x):
    made = np.zeros_like(x)
    for i in range(1, x.shape[0] - 1):
        for j in range(1, x.shape[1] - 1):
            made[i, j] = x[i - 1 : i + 2, j - 1 : j + 2].sum() // 9
    return made


@npt.stencil
def smooth(x):
    return (x[-1, -1] + x[-1, 0] + x[-1, 1] +
            x[ 0, -1] + x[ 0, 0] + x[ 0, 1] +
            x[ 1, -1] + x[ 1, 0] + x[ 1, 1]) // 9  # fmt: skip


x = np.random.default_rng(0).integers(0, 127, (100, 100), dtype=np.int8)
assert np.array_equal(smooth(x), loops(x))


# %% The original
@numba.stencil
def mean_of_nine(x):
    return (x[-1, -1] + x[-1, 0] + x[-1, 1] +
            x[ 0, -1] + x[ 0, 0] + x[ 0, 1] +
            x[ 1, -1] + x[ 1, 0] + x[ 1, 1]) // 9  # fmt: skip


@numba.guvectorize([(numba.int8[:, :], numba.int8[:, :])], "(n, m) -> (n, m)")
def with_numba(x, out):
    out[:] = mean_of_nine(x)


assert np.array_equal(smooth(x), with_numba(x))

# %% Random frames
rng = da.random.default_rng(0)
shape = (FRAMES, 1000, 1000)
x = rng.integers(0, 127, shape, chunks=("64 MB", -1, -1), dtype=np.int8)

# %% One call, and nothing computed
mapped = x.map_blocks(smooth, dtype=np.int8)
y = smooth(x)
assert y.shape == mapped.shape == shape
assert y.dtype == np.int8
assert y.chunks == x.chunks
assert (y[:3, :50, :50] == mapped[:3, :50, :50]).all().compute()

# %% One worker, four threads, four gigabytes
client = Client(
    threads_per_worker=4, n_workers=1, processes=False, memory_limit=LIMIT, dashboard_address=":0"
)

# %% [markdown]
# A stencil of Numba cannot be pickled, so the client of today refuses to send the original to a
# worker. It is done by four threads of Dask without a client.

# %% The greatest of all
sampler = MemorySampler()
greatest, seconds = {}, {}


def measure(name, array, **options):
    """Find the greatest number of an array; keep how long that took, and how much memory."""
    start = perf_counter()
    with sampler.sample(name, interval=0.1):
        greatest[name] = int(array.max().compute(**options))
    seconds[name] = perf_counter() - start


measure("random numbers alone", x)
measure("ninepoint", y)
measure("Numba", with_numba(x), scheduler="threads", num_workers=4)

# %% Times and memory
most = sampler.to_pandas().max()
alone = seconds["random numbers alone"]
for name in seconds:
    print(
        f"{name:22s} max {greatest[name]:4d}   {seconds[name]:7.2f} s   "
        f"{seconds[name] / alone:5.2f} x   {most[name] / 1e9:5.2f} GB"
    )
assert greatest["ninepoint"] == greatest["Numba"] <= greatest["random numbers alone"]
assert most.max() < LIMIT
client.close()
