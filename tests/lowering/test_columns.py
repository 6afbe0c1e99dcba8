"""Columns of stages that are taken apart, and stages that no two results share."""

import numpy as np
import pytest

import ninepoint as npt


@npt.stencil
def weighted(x):
    return (x[-2:3, -2:3] * np.outer([1, 4, 6, 4, 1], [1, 4, 6, 4, 1]).astype("float32")).sum()


@npt.stencil
def pooled(x):
    return x[0:2, 0:2].mean()


def text(stencil, every):
    compiled, _, _ = stencil.definition.compiled([np.dtype("float32")], {}, every=every)
    return compiled.module.text


def test_no_row_is_read_at_every_second_place_thrice():
    written = text(weighted, (2, 2))
    assert "v0 = np.empty((1, 2, padded(n + 2, 4)), dtype=np.float32)" in written
    final = written.partition("def band_row")[2].partition("def band(")[0]
    assert "[q0 + 2]" in final
    assert "[j" not in final


@pytest.mark.parametrize(("every", "parts"), [((1, 3), 3), ((2, 4), 4)])
def test_each_column_is_made_once(every, parts):
    written = text(weighted, every)
    stage = written.partition("def v0_row")[2].partition("\n\n\n")[0]
    assert f"o{parts - 1}[q0]" in stage
    assert f"o{parts}[q0]" not in stage


def test_what_is_not_shared_is_done_in_place():
    assert "v0" not in text(pooled, (2, 2))
    assert "v0" in text(pooled, (1, 2))


@pytest.mark.usefixtures("protected_pages")
@pytest.mark.parametrize("every", [(2, 2), (2, 3), (1, 4)])
def test_nothing_beyond_the_array_is_read(every):
    """The lowest columns may be one more than those beside them."""
    for columns in range(5, 10):
        x = np.random.default_rng(columns).random((9, columns), dtype="float32")
        made = weighted(x, every=every, boundary="valid")
        wanted = weighted(x, boundary="valid")[:: every[0], :: every[1]]
        np.testing.assert_array_equal(made, wanted)
