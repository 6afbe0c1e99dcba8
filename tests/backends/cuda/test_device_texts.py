"""The arithmetic that every text of a GPU begins with: NumPy's, or that of the CPU's text."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import emulator
import ninepoint as npt
from ninepoint.backends.llvm import library as support

pytestmark = pytest.mark.skipif(emulator.GXX is None, reason="needs g++")

ENDS = [0, 1, -1, 2, -2, 3, 7, -9, 63, 64, 10**6, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63)]
FLOATS = [
    0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 7.0, -7.0, 1e-45, 1e-310, 2.0**-14, 2.0**-25, 65504.0,
    65519.9, 65520.0, 1e30, -1e30, 2.0**31, 2.0**63, -(2.0**63), 2.0**64, 3e38, 1e300, np.inf,
    -np.inf, np.nan,
]  # fmt: skip

BODIES = {
    "widened(const npt_half *x, float *y)": "y[i] = npt_widened(x[i]);",
    "halved(const double *x, npt_half *y)": "y[i] = npt_halved(x[i]);",
    "rounded(const double *x, float *y)": "y[i] = npt_round_to_half(x[i]);",
    "exp32(const float *x, float *y)": "y[i] = npt_exp_float32(x[i]);",
    "exp64(const double *x, double *y)": "y[i] = npt_exp_float64(x[i]);",
    "radians32(const float *x, float *y)": "y[i] = npt_deg2rad(x[i]);",
    "radians64(const double *x, double *y)": "y[i] = npt_deg2rad(x[i]);",
    "degrees32(const float *x, float *y)": "y[i] = npt_rad2deg(x[i]);",
    "degrees64(const double *x, double *y)": "y[i] = npt_rad2deg(x[i]);",
    "keys32(const float *x, unsigned *y)": "y[i] = npt_key(x[i]);",
    "keys64(const double *x, npt_uint64 *y)": "y[i] = npt_key(x[i]);",
    "keyed32(const float *x, float *y)": "y[i] = npt_keyed(npt_key(x[i]));",
    "keyed64(const double *x, double *y)": "y[i] = npt_keyed(npt_key(x[i]));",
    "divide64(const npt_int64 *x, const npt_int64 *z, npt_int64 *y)": (
        "y[i] = npt_integer_divide(x[i], z[i]);"
    ),
    "divide32(const int *x, const int *z, int *y)": "y[i] = npt_integer_divide(x[i], z[i]);",
    "modulo64(const npt_int64 *x, const npt_int64 *z, npt_int64 *y)": (
        "y[i] = npt_integer_modulo(x[i], z[i]);"
    ),
    "modulo32(const int *x, const int *z, int *y)": "y[i] = npt_integer_modulo(x[i], z[i]);",
    "nearest(const npt_int64 *x, const npt_int64 *z, npt_int64 *y)": (
        "y[i] = npt_nearest_multiple(x[i], z[i]);"
    ),
    "floor32(const float *x, const float *z, float *y)": (
        "y[i] = npt_floor_divide_float32(x[i], z[i]);"
    ),
    "floor64(const double *x, const double *z, double *y)": (
        "y[i] = npt_floor_divide_float64(x[i], z[i]);"
    ),
    "rest64(const double *x, const double *z, double *y)": "y[i] = npt_remainder(x[i], z[i]);",
    "saturated8(const double *x, int *y)": "y[i] = npt_saturate(x[i], -128, 127);",
    "saturated64(const double *x, npt_int64 *y)": (
        "y[i] = npt_saturate_wide(x[i], -9223372036854775807ll - 1, 9223372036854775807ll);"
    ),
    "saturated_u64(const double *x, npt_uint64 *y)": (
        "y[i] = npt_saturate_wide(x[i], 0ull, 18446744073709551615ull);"
    ),
    "quotients(const npt_complex128 *x, const npt_complex128 *z, npt_complex128 *y)": (
        "y[i] = npt_divide(x[i], z[i]);"
    ),
    "mapped(const int *x, const int *z, int *y)": (
        "const int k = x[i], n = z[i]; y[4 * i] = k < 0 || k >= n ? npt_nearest(k, n) : k;"
        "y[4 * i + 1] = npt_reflect(k, n); y[4 * i + 2] = npt_mirror(k, n);"
        "y[4 * i + 3] = npt_wrap(k, n);"
    ),
}


@pytest.fixture(scope="module")
def functions():
    texts = []
    for head, body in BODIES.items():
        text = f"{head[:-1]}) {{ const int i = blockIdx.x; {body} }}"
        texts.append(f'extern "C" __global__ void {text}')
    return emulator.compiled(["\n".join(texts)])[0]


@pytest.fixture
def run(functions):
    def made(name, dtype, *given, times=1):
        given = [emulator.guarded(np.asarray(one)) for one in given]
        out = emulator.guarded(np.zeros(given[0].size * times, dtype))
        functions[name](given[0].size, 1, [*given, out])
        return out

    return made


def pairs(values, dtype):
    both = list(itertools.product(np.array(values, dtype), repeat=2))
    return [np.array(one, dtype) for one in zip(*both, strict=True)]


def same(made, wanted):
    """Equal to the bit, save that any NaN is as good as another."""
    wanted = np.asarray(wanted, made.dtype)
    if made.dtype.kind in "fc":
        np.testing.assert_array_equal(np.isnan(made), np.isnan(wanted))
        made, wanted = np.nan_to_num(made, nan=7), np.nan_to_num(wanted, nan=7)
    np.testing.assert_array_equal(made.view(np.uint8), wanted.view(np.uint8))


def test_every_half_float(run):
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16)
    same(run("widened", np.float32, halves), halves.astype(np.float32))
    same(run("halved", np.float16, halves.astype(np.float64)), halves)


def test_rounding_to_half_floats(run):
    random = np.random.default_rng(0)
    scales = 2.0 ** random.integers(-30, 18, 4000)
    ties = random.integers(0, 2**11, 4000) + random.choice([0, 0.5, 0.5 + 2**-40], 4000)
    values = np.concatenate([FLOATS, random.normal(size=4000) * scales, ties * scales])
    with np.errstate(over="ignore"):
        wanted = values.astype(np.float16)
    same(run("halved", np.float16, values), wanted)
    same(run("rounded", np.float32, values), wanted.astype(np.float32))


def test_exponentials_have_the_bits_of_the_cpu(run):
    random = np.random.default_rng(1)
    values = np.concatenate([FLOATS, random.normal(0, 60, 500), [88.7, -103.9, 709.7, -745.1]])
    with np.errstate(all="ignore"):
        single = values.astype(np.float32)
        same(run("exp32", np.float32, single), [support.exp_float32(v) for v in single])
        same(run("exp64", np.float64, values), [support.exp_float64(v) for v in values])


def test_degrees_and_radians_have_the_bits_of_the_cpu(run):
    degrees, radians = npt.stencil(_degrees), npt.stencil(_radians)
    for bits in (32, 64):
        with np.errstate(over="ignore"):
            values = np.array(FLOATS).astype(f"float{bits}")
        same(run(f"degrees{bits}", values.dtype, values), degrees(values))
        same(run(f"radians{bits}", values.dtype, values), radians(values))


def _degrees(x):
    return np.rad2deg(x[0])


def _radians(x):
    return np.deg2rad(x[0])


def test_keys_are_in_the_order_of_floats(run):
    for bits in (32, 64):
        with np.errstate(over="ignore"):
            own = np.unique(np.array(FLOATS).astype(f"float{bits}"))
        own = own[own == own]
        keys = run(f"keys{bits}", f"uint{bits}", own)
        assert (keys[1:] > keys[:-1]).all()
        same(run(f"keyed{bits}", own.dtype, own), own)


def test_quotients_of_integers(run):
    for bits in (32, 64):
        dtype, low, high = f"int{bits}", -(2 ** (bits - 1)), 2 ** (bits - 1)
        x, z = pairs([v for v in ENDS if low <= v < high], dtype)
        exact = list(zip(map(int, x), map(int, z), strict=True))
        quotients = [(a // b + high) % 2**bits - high if b else 0 for a, b in exact]
        same(run(f"divide{bits}", dtype, x, z), quotients)
        same(run(f"modulo{bits}", dtype, x, z), [a % b if b else 0 for a, b in exact])


def test_nearest_multiples(run):
    steps = [10, 100, 10**9, 10**18]
    x, z = (
        np.array(one)
        for one in zip(*itertools.product([*ENDS, 15, 25, -15, 150], steps), strict=True)
    )
    with np.errstate(all="ignore"):
        wanted = [support.nearest_multiple(a, b) for a, b in zip(x, z, strict=True)]
    same(run("nearest", np.int64, x, z), np.array(wanted, np.uint64).view(np.int64))


def test_quotients_of_floats(run):
    with np.errstate(all="ignore"):
        for bits in (32, 64):
            x, z = pairs(FLOATS, f"float{bits}")
            function = getattr(support, f"floor_divide_float{bits}")
            wanted = [function(a, b) for a, b in zip(x, z, strict=True)]
            same(run(f"floor{bits}", x.dtype, x, z), wanted)
        same(
            run("rest64", np.float64, x, z),
            [support.remainder(*p) for p in zip(x, z, strict=True)],
        )


def test_saturation(run):
    x = np.array([*FLOATS, 126.9, 127.0, 128.5, -128.9, -129.0])
    clipped = np.nan_to_num(np.clip(np.trunc(x), -128, 127))
    same(run("saturated8", np.int32, x), clipped)
    for name, dtype in (("saturated64", "int64"), ("saturated_u64", "uint64")):
        info = np.iinfo(dtype)
        wanted = [0 if v != v else int(min(max(v, info.min), info.max)) for v in x]
        wanted = [min(max(v, int(info.min)), int(info.max)) for v in wanted]
        same(run(name, dtype, x), np.array(wanted, dtype))


def test_complex_quotients_are_those_of_numpy(run):
    parts = [0.0, -0.0, 1.0, -2.5, 1e200, 1e-200, np.inf]
    x, z = pairs([complex(a, b) for a in parts for b in parts], complex)
    with np.errstate(all="ignore"):
        same(run("quotients", complex, x, z), x / z)


def test_positions_beyond_the_ends(run):
    from ninepoint.arrays.gathering import source_indices

    k, n = (
        np.array(one, np.int32)
        for one in zip(*itertools.product(range(-30, 40), range(1, 9)), strict=True)
    )
    made = run("mapped", np.int32, k, n, times=4).reshape(-1, 4)
    for column, rule in enumerate(("nearest", "reflect", "mirror", "wrap")):
        wanted = [source_indices(a, a + 1, b, rule, rule)[0] for a, b in zip(k, n, strict=True)]
        np.testing.assert_array_equal(made[:, column], wanted)
