"""The table of windows: with NaN, with a shape, of colours, at every second point, by position.

What is only there for its time, as the same filter without NaN, is named for what it leaves out.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .peers import Peer, Tolerance, as_array, halide_sizes, ours, windowed
from .problem import Problem

GROUP = "windows"

_IMAGES = ((512, 512), (2048, 2048))
_FRAME = ((1080, 1920, 3),)
_CUTS = "scikit-image cuts the decimals off"


def _box(function: Callable[[Any], Any], reach: int) -> Callable[..., Any]:
    def kernel(x):
        return function(x[-reach : reach + 1, -reach : reach + 1])

    return kernel


def _shaped(function: Callable[[Any], Any], shape: np.ndarray) -> Callable[..., Any]:
    reach = len(shape) // 2

    def kernel(x):
        return function(x[-reach : reach + 1, -reach : reach + 1][shape])

    return kernel


def _trailing_max(x):
    return np.nanmax(x[-4:1, -4:1])


def _trailing_mean(x):
    return np.nanmean(x[0, -24:1])


def _generic(function: Callable[[Any], Any], size: int, origin: int = 0) -> Peer:
    return windowed.filtered(
        lambda n, x, out: n.generic_filter(x, function, size, output=out, origin=origin), nan=True
    )


def _nan_mean(reach: int) -> Problem:
    size = 2 * reach + 1
    return Problem(
        f"nanmean {size}x{size}",
        windowed.stencil(_box(np.nanmean, reach), nan=True),
        (
            windowed.stencil(
                _box(np.mean, reach), name="mean", unlike="knows no NaN: for its time only"
            ),
            _generic(np.nanmean, size),
        ),
        near=(reach, reach),
        group=GROUP,
        dtypes=("float32",),
        shapes=((512, 512),),
    )


def _nan_median(reach: int) -> Problem:
    size = 2 * reach + 1
    return Problem(
        f"nanmedian {size}x{size}",
        windowed.stencil(_box(np.nanmedian, reach), nan=True),
        (
            windowed.stencil(
                _box(np.median, reach), name="median", unlike="knows no NaN: for its time only"
            ),
            _generic(np.nanmedian, size),
        ),
        near=(reach, reach),
        group=GROUP,
        dtypes=("float32",),
        shapes=((512, 512),),
    )


def _median_of_floats(radius: int) -> Problem:
    shape = windowed.disk(radius)
    return Problem(
        f"median over disk({radius}) of floats",
        windowed.stencil(_shaped(np.median, shape)),
        (windowed.filtered(lambda n, x, out: _scipy_median(n, x, shape, out)),),
        near=(radius, radius),
        group=GROUP,
        dtypes=("float32", "float64"),
        shapes=((512, 512),),
    )


def _erosion(radius: int) -> Problem:
    shape = windowed.disk(radius)
    bytes_ = shape.astype(np.uint8)
    return Problem(
        f"minimum over disk({radius})",
        windowed.stencil(_shaped(np.min, shape)),
        (
            windowed.filtered(lambda n, x, out: n.minimum_filter(x, footprint=shape, output=out)),
            windowed.opencv(lambda cv2, x: cv2.erode(x, bytes_), interior=True),
            windowed.skimage(lambda m, x: m.erosion(x, bytes_), "morphology", interior=True),
        ),
        near=(radius, radius),
        group=GROUP,
        dtypes=("uint8",),
        shapes=_IMAGES,
    )


def _dilation(radius: int) -> Problem:
    shape = windowed.disk(radius)
    bytes_ = shape.astype(np.uint8)
    return Problem(
        f"maximum over disk({radius})",
        windowed.stencil(_shaped(np.max, shape)),
        (
            windowed.filtered(lambda n, x, out: n.maximum_filter(x, footprint=shape, output=out)),
            windowed.opencv(lambda cv2, x: cv2.dilate(x, bytes_), interior=True),
            windowed.skimage(lambda m, x: m.dilation(x, bytes_), "morphology", interior=True),
        ),
        near=(radius, radius),
        group=GROUP,
        dtypes=("uint8",),
        shapes=_IMAGES,
        tiny=(2 * radius + 9, 2 * radius + 12),
    )


def _rank(name: str, function: Callable[[Any], Any], radius: int, scipys: Any) -> Problem:
    shape = windowed.disk(radius)
    bytes_ = shape.astype(np.uint8)
    cut = {"tolerance": Tolerance(integers=1), "why": _CUTS} if name == "mean" else {}
    return Problem(
        f"{name} over disk({radius})",
        windowed.stencil(_shaped(function, shape)),
        (
            windowed.filtered(lambda n, x, out: scipys(n, x, shape, out)),
            windowed.skimage(
                lambda m, x: getattr(m, name)(x, bytes_), "filters.rank", interior=True, **cut
            ),
        ),
        near=(radius, radius),
        group=GROUP,
        dtypes=("uint8",),
        shapes=_IMAGES,
    )


def _scipy_median(n: Any, x: np.ndarray, shape: np.ndarray, out: np.ndarray) -> None:
    n.median_filter(x, footprint=shape, output=out)


def _scipy_minimum(n: Any, x: np.ndarray, shape: np.ndarray, out: np.ndarray) -> None:
    n.minimum_filter(x, footprint=shape, output=out)


def _scipy_mean(n: Any, x: np.ndarray, shape: np.ndarray, out: np.ndarray) -> None:
    sums = n.correlate(x.astype(np.int32), shape.astype(np.int32))
    np.rint(sums / np.count_nonzero(shape), out=out, casting="unsafe")


def _whole_mean(w):
    return (2 * w.sum() + w.size) // (2 * w.size)


def _opened(shape: np.ndarray, stencil: Any) -> Any:
    erode, dilate = stencil(_shaped(np.min, shape)), stencil(_shaped(np.max, shape))

    def opening(x):
        return dilate(erode(x))[0, 0]

    return opening


def _closed(shape: np.ndarray, stencil: Any) -> Any:
    erode, dilate = stencil(_shaped(np.min, shape)), stencil(_shaped(np.max, shape))

    def closing(x):
        return erode(dilate(x))[0, 0]

    return closing


def _bright(shape: np.ndarray, stencil: Any) -> Any:
    erode, dilate = stencil(_shaped(np.min, shape)), stencil(_shaped(np.max, shape))

    def white_tophat(x):
        return np.uint8(x[0, 0] - dilate(erode(x))[0, 0])

    return white_tophat


def _morphology(name: str, radius: int, build: Any, scipys: str, cv: str) -> Problem:
    shape = windowed.disk(radius)
    bytes_ = shape.astype(np.uint8)
    return Problem(
        f"{name} by disk({radius})",
        ours.staged(lambda stencil: stencil(build(shape, stencil)), "reflect"),
        (
            windowed.filtered(
                lambda n, x, out: getattr(n, scipys)(x, footprint=shape, output=out)
            ),
            windowed.opencv(
                lambda cv2, x: cv2.morphologyEx(x, getattr(cv2, cv), bytes_), interior=True
            ),
            windowed.skimage(
                lambda m, x: getattr(m, name.replace(" ", "_"))(x, bytes_),
                "morphology",
                interior=True,
            ),
        ),
        near=(2 * radius, 2 * radius),
        group=GROUP,
        dtypes=("uint8",),
        shapes=_IMAGES,
    )


# Colours last, and the same with colours first.

_GAUSS = np.outer([1, 2, 1], [1, 2, 1])


def _mean(x):
    return (2 * x[-1:2, -1:2].sum() + 9) // 18


def _gaussian(x):
    return ((x[-1:2, -1:2] * _GAUSS).sum() + 8) // 16


def _median(x):
    return int(np.median(x[-1:2, -1:2]))


def _middle(w):
    return int(np.median(w))


def _planes(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(np.moveaxis(x, -1, 0))


def _colours_last(result: Any) -> np.ndarray:
    return np.moveaxis(as_array(result), 0, -1)


def _colours(name: str, kernel: Callable[..., Any], cv: Any, scipys: Any, **slack: Any) -> Problem:
    return Problem(
        f"{name} 3x3, colours last",
        windowed.stencil(kernel, axes=(0, 1)),
        (
            windowed.stencil(kernel, name="colours first", move=_planes, back=_colours_last),
            windowed.opencv(cv, interior=True, **slack),
            windowed.filtered(scipys),
        ),
        near=(1, 1, 0),
        group=GROUP,
        dtypes=("uint8",),
        shapes=_FRAME,
        tiny=(24, 33, 3),
        tolerance=Tolerance(integers=1),
    )


def _scipy_gaussian(n: Any, x: np.ndarray, out: np.ndarray) -> None:
    found = n.correlate(x.astype(np.int32), _GAUSS[..., None])
    np.right_shift(found + 8, 4, out=out, casting="unsafe")


# Every second point.


def _pool(x):
    return x[0:2, 0:2].mean()


_DOWN = np.outer([1, 4, 6, 4, 1], [1, 4, 6, 4, 1]).astype(np.float32) / 256


def _down(x):
    return (x[-2:3, -2:3] * _DOWN).sum()


def _pyramid(x: np.ndarray, threads: int) -> Any:
    import ninepoint as npt

    down = npt.stencil(boundary="mirror")(_down)

    def work() -> Any:
        found = x
        for _ in range(3):
            found = down(found, every=(2, 2), threads=threads)
        return found

    return work


# By position: an odd row is taken otherwise than an even one.


def _striped(x: np.ndarray, threads: int) -> Any:
    import ninepoint as npt

    @npt.stencil(boundary="reflect")
    def striped(x):
        row, _ = npt.index(x)
        near = x[0, -1] + x[0, 1]
        return near - x[0, 0] if row % 2 else near + x[0, 0]

    return ours.IntoResult(partial(striped, x, threads=threads))


def _by_value(x):
    near = x[0, -1] + x[0, 1]
    return near - x[0, 0] if x[0, 0] > 0.5 else near + x[0, 0]


def _stripes_by_slices(x: np.ndarray) -> np.ndarray:
    padded = np.pad(x, ((0, 0), (1, 1)), mode="symmetric")
    near = padded[:, :-2] + padded[:, 2:]
    found = near + x
    found[1::2] = near[1::2] - x[1::2]
    return found


def _thrice(step: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    return lambda x: step(step(step(x)))


def _scipy_pyramid(x: np.ndarray, threads: int) -> Any:
    from scipy import ndimage

    line = np.array([1, 4, 6, 4, 1], np.float32) / 16

    def step(x: np.ndarray) -> np.ndarray:
        rows = ndimage.correlate1d(x, line, 0, mode="mirror")
        found: np.ndarray = ndimage.correlate1d(rows, line, 1, mode="mirror")[::2, ::2]
        return found

    return lambda: _thrice(step)(x)


WINDOWS: tuple[Problem, ...] = (
    _nan_mean(1),
    _nan_mean(3),
    _nan_median(1),
    _nan_median(2),
    Problem(
        "nanmax 5x5",
        windowed.stencil(_trailing_max, nan=True),
        (
            _generic(np.nanmax, 5, 2),
            windowed.bottleneck(
                lambda bn, x: bn.move_max(bn.move_max(x, 5, 1, axis=0), 5, 1, axis=1)
            ),
        ),
        near=(4, 4),
        group=GROUP,
        dtypes=("float32",),
        shapes=((512, 512),),
    ),
    Problem(
        "nanmean of 25 in a row",
        windowed.stencil(_trailing_mean, nan=True),
        (
            windowed.filtered(
                lambda n, x, out: n.generic_filter(
                    x, np.nanmean, (1, 25), output=out, origin=(0, 12)
                ),
                nan=True,
            ),
            windowed.bottleneck(lambda bn, x: bn.move_mean(x, 25, 1, axis=-1)),
            windowed.numbagg(lambda nb, x: nb.move_mean(x, window=25, min_count=1)),
        ),
        near=(0, 24),
        group=GROUP,
        dtypes=("float32",),
        shapes=((512, 512),),
        tiny=(9, 60),
    ),
    _dilation(3),
    _dilation(10),
    _dilation(26),
    _rank("median", _middle, 2, _scipy_median),
    _rank("median", _middle, 5, _scipy_median),
    _rank("mean", _whole_mean, 5, _scipy_mean),
    _median_of_floats(5),
    _erosion(3),
    _rank("minimum", np.min, 5, _scipy_minimum),
    _morphology("opening", 3, _opened, "grey_opening", "MORPH_OPEN"),
    _morphology("closing", 3, _closed, "grey_closing", "MORPH_CLOSE"),
    _morphology("white tophat", 3, _bright, "white_tophat", "MORPH_TOPHAT"),
    _colours(
        "mean",
        _mean,
        lambda cv2, x: cv2.blur(x, (3, 3)),
        lambda n, x, out: n.uniform_filter(x, (3, 3, 1), out),
    ),
    _colours(
        "gaussian", _gaussian, lambda cv2, x: cv2.GaussianBlur(x, (3, 3), 0), _scipy_gaussian
    ),
    _colours(
        "median",
        _median,
        lambda cv2, x: cv2.medianBlur(x, 3),
        lambda n, x, out: n.median_filter(x, (3, 3, 1), output=out),
    ),
    Problem(
        "mean pool 2x2",
        windowed.stencil(_pool, every=(2, 2)),
        (
            windowed.skimage(lambda m, x: m.downscale_local_mean(x, (2, 2)), "transform"),
            windowed.opencv(
                lambda cv2, x: cv2.resize(x, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA)
            ),
            halide_sizes.pool(),
            windowed.plain(lambda x: x.reshape(len(x) // 2, 2, x.shape[1] // 2, 2).mean((1, 3))),
        ),
        near=(1, 1),
        group=GROUP,
        dtypes=("float32",),
        shapes=_IMAGES,
        tiny=(40, 44),
    ),
    Problem(
        "odd and even rows (npt.index)",
        windowed.calling("ninepoint", "ninepoint", _striped, threads=True),
        (
            windowed.stencil(
                _by_value, name="by value", unlike="chooses by values: for its time only"
            ),
            windowed.plain(_stripes_by_slices),
        ),
        near=(0, 1),
        group=GROUP,
        dtypes=("float32",),
        shapes=_IMAGES,
    ),
    Problem(
        "pyramid of 3 levels",
        windowed.calling("ninepoint", "ninepoint", _pyramid, threads=True),
        (
            windowed.opencv(lambda cv2, x: _thrice(cv2.pyrDown)(x)),
            halide_sizes.pyramid(),
            windowed.calling("SciPy", "scipy", _scipy_pyramid),
        ),
        near=(2, 2),
        group=GROUP,
        dtypes=("float32",),
        shapes=_IMAGES,
        tiny=(40, 48),
    ),
)
