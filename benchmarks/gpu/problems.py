"""The rows: works on arrays far larger than the cache of a GPU, but for the rules of borders."""

from __future__ import annotations

from .. import kernels, stages, steps
from ..peers import Peer, jax, ours
from ..problem import Problem, Shape
from . import peers
from .peers import on_cpu, on_gpu

FLAT = (8192, 8192)
BYTES = (16384, 16384)
VOLUME = (512, 512, 512)
RULES = ("keep", "valid", "constant", "nearest", "reflect", "mirror", "wrap")

# Seconds that the samples of each may take: of some milliseconds that a call takes, many.
SHARE = 1.0


def _problem(
    name: str,
    own: Peer,
    *others: Peer,
    near: tuple[int, ...],
    dtype: str = "float32",
    shape: Shape = FLAT,
    count: int = 1,
    tiny: Shape = (40, 45),
) -> Problem:
    """Ours on the GPU, with the same on the CPU as the first peer."""
    return Problem(
        name,
        on_gpu(own),
        (on_cpu(own), *others),
        near=near,
        group="gpu",
        steps=count,
        dtypes=(dtype,),
        shapes=(shape,),
        tiny=tiny,
        share=SHARE,
    )


def _mean(dtype: str, shape: Shape = FLAT, name: str = "mean 3x3") -> Problem:
    integers = dtype in ("int8", "uint8")
    others = (jax.mean(3),)
    if dtype == "float32":
        others = (peers.cupyx_mean(3), peers.torch_mean(3), peers.triton_mean(), jax.mean(3))
    return _problem(
        name,
        ours.ours(lambda dtype: kernels.mean(3, integers), "reflect"),
        *others,
        near=(1, 1),
        dtype=dtype,
        shape=shape,
    )


def _median(size: int, dtype: str, shape: Shape = FLAT) -> Problem:
    return _problem(
        f"median {size}x{size}",
        ours.ours(lambda dtype: kernels.median(size, dtype.kind in "iu"), "reflect"),
        peers.cupyx_median(size),
        near=(size // 2, size // 2),
        dtype=dtype,
        shape=shape,
    )


def _border(rule: str) -> Peer:
    own = ours.ours(lambda dtype: kernels.nine, rule, name="ninepoint" if rule == "fill" else rule,
                    interior=rule != "fill")  # fmt: skip
    return on_gpu(own)


PROBLEMS: tuple[Problem, ...] = (
    _problem(
        "recipe: mean 3x3, the blog's array",
        ours.ours(lambda dtype: kernels.recipe, "fill"),
        peers.blog(),
        peers.cupy_recipe(),
        near=(1, 1),
        dtype="int8",
        shape=(10000, 10000),
    ),
    _problem(
        "recipe: mean 3x3, 256 frames",
        ours.ours(lambda dtype: kernels.recipe, "fill"),
        peers.cupy_recipe(),
        jax.recipe(),
        near=(1, 1),
        dtype="int8",
        shape=(256, 1000, 1000),
        tiny=(2, 40, 45),
    ),
    _mean("float32"),
    _mean("float64"),
    _mean("float32", (4096, 16381), "mean 3x3, rows not aligned"),
    _mean("uint8", BYTES),
    _problem(
        "gaussian 5x5, sigma 1",
        ours.ours(lambda dtype: kernels.gaussian(32), "reflect"),
        peers.cupyx_weights(peers.BELL),
        peers.torch_weights(peers.BELL),
        jax.gaussian(),
        near=(2, 2),
    ),
    _median(3, "uint8", BYTES),
    _median(3, "float32"),
    _median(5, "uint8"),
    _median(7, "uint8"),
    _problem(
        "maximum 31x31",
        ours.ours(lambda dtype: kernels.greatest(31), "reflect"),
        peers.cupyx_greatest(31),
        jax.greatest(31),
        near=(15, 15),
        dtype="uint8",
    ),
    _problem(
        "Harris corners",
        ours.staged(stages.harris, "reflect"),
        jax.harris(),
        near=(2, 2),
    ),
    _problem(
        "3-D, 7 points",
        ours.ours(lambda dtype: kernels.seven, "reflect"),
        peers.cupyx_weights(kernels.SEVEN),
        near=(1, 1, 1),
        shape=VOLUME,
        tiny=(9, 10, 11),
    ),
    _problem(
        "heat 2-D, 16 steps",
        ours.stepping(steps.heat, steps.alone, 16),
        peers.cupy_heat(16),
        peers.torch_heat(16),
        jax.stepping(steps.heat, steps.alone, 16, (1, 1)),
        near=(1, 1),
        count=16,
    ),
    _problem(
        "heat 3-D, 8 steps",
        ours.stepping(steps.heat_3d, steps.alone, 8),
        jax.stepping(steps.heat_3d, steps.alone, 8, (1, 1, 1)),
        near=(1, 1, 1),
        shape=VOLUME,
        count=8,
        tiny=(9, 10, 11),
    ),
    Problem(
        "border rules",
        _border("fill"),
        tuple(map(_border, RULES)),
        near=(1, 1),
        group="gpu",
        dtypes=("float32",),
        shapes=((4096, 4096),),
        share=SHARE,
    ),
)
