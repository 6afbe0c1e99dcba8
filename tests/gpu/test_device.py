"""What a GPU computes is what the reference says, and what the CPU computes, to the last bit.

    python -m pytest -m gpu tests/gpu                       on a machine that has a GPU
    NINEPOINT_STANDIN=1 python -m pytest -m gpu tests/gpu   a rehearsal of the tests themselves

The rehearsal takes the stand-in for CuPy of `tests/cuda`, which g++ compiles for, and few kernels.
"""

import os
import shutil
import sys

import numpy as np
import pytest

import agree
import drawing
import kernels
import ninepoint as npt
import on_gpu
from on_gpu import same

REHEARSAL = bool(os.environ.get("NINEPOINT_STANDIN"))


@pytest.fixture(scope="session")
def _found():
    """CuPy, if it can compute here."""
    if REHEARSAL:
        if shutil.which("g++") is None:
            pytest.skip("g++ compiles what a GPU would run")
        sys.path.insert(0, str(on_gpu.STANDIN))
    cupy = pytest.importorskip("cupy")
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        pytest.skip(f"no GPU: {error}")
    if not count:
        pytest.skip("no GPU")
    return cupy


@pytest.fixture
def cupy(_found):
    """CuPy; what a test began is waited for, so that its mistakes are its own."""
    yield _found
    _found.cuda.runtime.deviceSynchronize()
    _found.get_default_memory_pool().free_all_blocks()


@pytest.fixture
def rehearsal():
    return REHEARSAL


@pytest.fixture
def on_a_gpu(cupy):
    """For tests of which no rehearsal knows: libraries, much memory, tools."""
    if REHEARSAL:
        pytest.skip("needs a GPU")


pytestmark = pytest.mark.gpu

# Kernels are compiled one by one, each for some tenths of a second.
CHUNK = 25
CHUNKS = 8


def few(rehearsal, enough):
    if rehearsal and not enough:
        pytest.skip("a rehearsal takes few kernels")


def agrees(cupy, stencil, x, **options):
    """What lies on a GPU gives what lies here gives."""
    same(stencil(cupy.asarray(x), **options), stencil(x, **options))


@pytest.mark.parametrize("kind", drawing.KINDS)
@pytest.mark.parametrize("part", range(CHUNKS))
def test_random_programs(cupy, rehearsal, part, kind):
    few(rehearsal, part < 1)
    size = 6 if rehearsal else CHUNK
    seeds = range(900_000 + part * size, 900_000 + (part + 1) * size)
    _, wrong = agree.many(kind, seeds, compiled=True, most=1, gpu=1)
    assert not wrong, "\n\n".join(wrong)


@npt.stencil
def nine(x):
    return (
        x[-1, -1] + x[-1, 0] + x[-1, 1] + x[0, -1] + x[0, 0] + x[0, 1]
        + x[1, -1] + x[1, 0] + x[1, 1]
    )  # fmt: skip


def reflected(kernel):
    return npt.stencil(kernel, boundary="reflect")


middle = reflected(lambda x: np.median(x[-1:2, -1:2]))
wide_middle = reflected(lambda x: np.median(x[-3:4, -3:4]))
widest = reflected(lambda x: x[-5:6, -5:6].max())
wide = reflected(lambda x: x[-5:6, -5:6].mean())
slopes = npt.stencil(lambda x: (x[0, 1] - x[0, -1], x[1, 0] - x[-1, 0]), boundary="mirror")


@reflected
def corners(x):
    p, q = slopes(x)
    a = (p[-1:2, -1:2] * p[-1:2, -1:2]).sum()
    b = (p[-1:2, -1:2] * q[-1:2, -1:2]).sum()
    c = (q[-1:2, -1:2] * q[-1:2, -1:2]).sum()
    return a * c - b * b


def noise(dtype, *shape):
    random = np.random.default_rng(0)
    dtype = np.dtype(dtype)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return random.integers(info.min // 16, info.max // 16, shape, dtype)
    if dtype.kind == "c":
        return (random.random(shape) - 1j * random.random(shape)).astype(dtype)
    return random.random(shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["int8", "float16", "bfloat16", "float64", "complex64"])
@pytest.mark.parametrize("rule", [rule for rule in kernels.RULES if rule != "keep"])
def test_borders(cupy, rehearsal, rule, dtype):
    few(rehearsal, rule == "wrap")
    for shape in ((257, 1031), (3, 2), (1, 1), (64, 1024)):
        agrees(cupy, nine, noise(dtype, *shape), boundary=rule)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "int64"])
def test_extremes_of_negatives(cupy, dtype):
    extremes = npt.stencil(boundary="mirror")(on_gpu.negated_extremes)
    agrees(cupy, extremes, noise(dtype, 37, 70))


# NVRTC took minutes for large medians.
@pytest.mark.timeout(60)
@pytest.mark.parametrize("stencil", [middle, wide_middle, widest, wide, corners])
@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "float64"])
def test_windows_and_pipelines(cupy, rehearsal, stencil, dtype):
    few(rehearsal, dtype == "uint8")
    agrees(cupy, stencil, noise(dtype, 130, 515))


def test_the_same_bits_every_time(cupy):
    x = cupy.asarray(noise("float32", 500, 777))
    first = wide(x).get().tobytes()
    assert all(wide(x).get().tobytes() == first for _ in range(3))


def test_frames_that_are_not_aligned(cupy):
    for columns in (1, 31, 32, 33, 127, 129, 1000, 16381):
        x = noise("uint8", 5, columns + 3)
        there = cupy.asarray(x)
        for part in (slice(0, columns + 3), slice(1, columns + 1)):
            same(nine(there[:, part]), nine(x[:, part]))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_functions_that_are_rounded_otherwise(cupy, dtype):
    """The bound that docs/meaning/numbers.md states, for results of ordinary size."""

    def both(name):
        source = f"def kernel(x):\n    return np.{name}(x)\n"
        ours = npt.ufunc(kernels.compiled(source, names={"np": np}))
        return ours(x), ours(cupy.asarray(x)).get()

    x = np.linspace(0.01, 0.99, 4001).astype(dtype)
    for name in ("sin", "cos", "tan", "log", "log2", "log10", "log1p", "expm1", "exp2", "tanh",
                 "arctan", "arcsin", "arccos", "cbrt"):  # fmt: skip
        here, there = both(name)
        units = np.abs(here.astype("float64") - there) / np.spacing(np.abs(here)).astype("float64")
        assert units.max() <= 4, (name, units.max())
    for name in ("exp", "sqrt"):
        np.testing.assert_array_equal(*both(name))


def test_the_current_stream_is_the_one(cupy):
    x = noise("float32", 400, 901)
    np.testing.assert_array_equal(nine(x, device="cuda"), nine(x))
    wanted, made = nine(nine(x)), []
    for stream in [cupy.cuda.Stream(non_blocking=True) for _ in range(4)]:
        with stream:
            made.append((stream, nine(nine(cupy.asarray(x)))))
    for stream, one in made:
        with stream:
            same(one, wanted)


def test_tensors_of_torch_and_arrays_of_jax(on_a_gpu):
    torch = pytest.importorskip("torch")
    x = noise("float32", 50, 60)
    there = torch.from_numpy(x).cuda()
    out = torch.empty_like(there)
    nine(there, out=out)
    np.testing.assert_array_equal(out.cpu().numpy(), nine(x))
    np.testing.assert_array_equal(torch.from_dlpack(nine(there)).cpu().numpy(), nine(x))
    # It would take most of the memory at once.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jax = pytest.importorskip("jax")
    if jax.default_backend() == "gpu":
        same(nine(jax.numpy.asarray(x)), nine(x))


def test_dask_with_chunks_on_the_gpu(cupy):
    da = pytest.importorskip("dask.array")
    x = noise("float32", 90, 110)
    chunks = da.from_array(x, chunks=(40, 50)).map_blocks(cupy.asarray)
    found = nine(chunks, boundary="reflect").compute(scheduler="sync")
    assert isinstance(found, cupy.ndarray)
    same(found, nine(x, boundary="reflect"))


@pytest.mark.parametrize("shape", [(2**16, 2**15 + 100), (3, 2**30 + 2**20, 1)])
def test_frames_beyond_distances_of_32_bits(cupy, on_a_gpu, shape):
    x = cupy.arange(int(np.prod(shape)), dtype=np.uint8).reshape(shape)
    made = nine(x, boundary="wrap")
    for part in (0, shape[-2] // 2, shape[-2] - 5):
        rows = [row % shape[-2] for row in range(part - 1, part + 6)]
        wanted = nine(x[..., rows, :].get(), boundary="wrap")[..., 1:-1, :]
        within = [row % shape[-2] for row in range(part, part + 5)]
        np.testing.assert_array_equal(made[..., within, :].get(), wanted)


def test_no_room_is_said_and_left_behind(cupy, on_a_gpu):
    pool, x = cupy.get_default_memory_pool(), cupy.zeros((64, 64), np.float32)
    before = pool.get_limit()
    pool.set_limit(size=pool.total_bytes() + 1024)
    try:
        with pytest.raises(MemoryError, match="the GPU has no room"):
            nine(cupy.broadcast_to(x[0, :1], (1 << 14, 1 << 14)))
    finally:
        pool.set_limit(size=before)
    same(nine(x), nine(x.get()))
