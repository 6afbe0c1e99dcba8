"""Reductions of a part of a window, by a mask: `where=` and `initial=`, as NumPy spells them."""

from __future__ import annotations

import itertools
import linecache
import warnings
from typing import Any

import numpy as np
import pytest

import ninepoint as npt
from nightly import only
from seams import interpreted

CROSS = np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]], bool)
NONE = np.zeros((3, 3), bool)

# Of a window `w` and the mask `t`.
REDUCTIONS = (
    "w.sum(where=t)", "np.sum(w, where=t, initial=3)", "np.prod(w * 0.25, where=t)",
    "w.mean(where=t)", "w.min(where=t, initial=30)", "np.max(w, where=t, initial=-5)",
    "np.any(w > 20, where=t)", "(w > 20).all(where=t)", "w.var(where=t)",
    "np.std(w, ddof=1, where=t)", "np.nansum(w, where=t)", "np.nanmean(w, where=t)",
    "np.nanmin(w, where=t, initial=60)", "np.nanmax(w, where=t, initial=-1)",
    "np.nanstd(w, where=t)", "np.nanprod(w * 0.25, where=t)",
)  # fmt: skip
MASKS = ("m[-1:2, -1:2]", "CROSS", "NONE", "m[-1:2, -1:2] & (w > 20)", "m[0, 0]")


def by_text(stencil: Any, *fields: np.ndarray) -> Any:
    """What the generated text gives, run as plain Python: to compile takes seconds."""
    with interpreted():
        return stencil(*fields)


def kernel_of(reductions: tuple[str, ...], mask: str) -> Any:
    """A kernel whose results are these, with its text."""
    lines = ["def kernel(x, m):", "    w = x[-1:2, -1:2]", f"    t = {mask}"]
    text = "\n".join([*lines, f"    return {', '.join(reductions)}, m[0, 0]\n"])
    file = f"<where {abs(hash(text))}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    names: dict[str, Any] = {"np": np, "CROSS": CROSS, "NONE": NONE}
    exec(compile(text, file, "exec"), names)
    return npt.stencil(boundary="valid")(names["kernel"])


def expected(reduction: str, mask: str, x: np.ndarray, m: np.ndarray) -> np.ndarray:
    """What NumPy gives for each window by itself."""
    three = ((3, 3), (0, 1))
    windows = np.lib.stride_tricks.sliding_window_view(x, *three)
    masks = np.lib.stride_tricks.sliding_window_view(m, *three)
    found = np.empty(windows.shape[:2], object)
    code = compile(reduction, "<numpy>", "eval")
    test = mask.replace("m[-1:2, -1:2]", "part").replace("m[0, 0]", "np.full((3, 3), part[1, 1])")
    for place in np.ndindex(found.shape):
        names = {"np": np, "w": windows[place], "part": masks[place], "CROSS": CROSS, "NONE": NONE}
        names["t"] = eval(test, names)
        found[place] = eval(code, names)
    return found.astype(float)


@pytest.mark.parametrize(
    ("dtype", "mask"), only(5, itertools.product(["float64", "int16"], MASKS))
)
def test_a_mask_takes_elements(mask: str, dtype: str) -> None:
    generator = np.random.default_rng(4)
    x = (generator.random((6, 8)) * 50).astype(dtype)
    if dtype == "float64":
        x[1:4, 3:6], x[5, 7] = np.nan, np.inf
    m = generator.random(x.shape) < 0.5
    m[:4, :4] = False
    kernel = kernel_of(REDUCTIONS, mask)
    assert "understood" in kernel.explain(x.dtype, m.dtype)
    by_hand = kernel.debug(x, m)
    for name, result, one in zip(REDUCTIONS, by_text(kernel, x, m), by_hand, strict=False):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wanted = expected(name, mask, x, m)
        np.testing.assert_allclose(np.asarray(one, float), wanted, rtol=1e-11, err_msg=name)
        np.testing.assert_allclose(np.asarray(result, float), wanted, rtol=1e-11, err_msg=name)
        assert result.dtype == one.dtype, name


def test_means_of_large_integers_do_not_wrap() -> None:
    x, m = np.full(3, 2**62 + 2**40), np.array([True, True, True])

    @npt.stencil(boundary="valid")
    def kernel(x, m):
        return x[-1:2].mean(where=m[-1:2])

    assert by_text(kernel, x, m)[0] == kernel.debug(x, m)[0] == 2.0**62 + 2.0**40
