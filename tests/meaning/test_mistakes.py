"""Mistakes that no page of messages can show, and what an error has to be besides its words."""

from __future__ import annotations

import linecache
import pickle
import statistics
import subprocess
import sys

import numba
import numpy as np
import pytest

import ninepoint as npt


def test_error_survives_pickling():
    with pytest.raises(npt.StencilError) as caught:
        npt.stencil(lambda x: x[0.5])
    copy = pickle.loads(pickle.dumps(caught.value))
    assert str(copy) == str(caught.value)
    assert copy.diagnostic == caught.value.diagnostic


def test_whole_array_is_no_value_of_a_point():
    weights = np.array([1.0, 2.0, 3.0])
    with pytest.raises(npt.StencilError, match=r"must be a number\. \[not-a-number\]"):
        npt.stencil(lambda x: weights * 2 if x[0] is None else weights)(np.ones(4))


@pytest.mark.parametrize("kernel", [lambda x: (x[0], 1) + 2, lambda x: (x[0], 1) * (1, 2)])
def test_tuple_beside_what_it_cannot_be_joined_with(kernel):
    with pytest.raises(npt.StencilError, match=r"has no meaning for a tuple of 2\. \[bad-op"):
        npt.stencil(kernel)(np.ones(4))


TABLE = np.arange(6).reshape(2, 3)


@pytest.mark.parametrize(
    "kernel",
    [
        lambda x: TABLE[x[-1:2]].sum(),
        lambda x: x[0] + TABLE[0:1, 9].sum(),
        lambda x: x[0] + TABLE[TABLE].sum(),
        lambda x: x[0] + len(),
        lambda x: x[0] + len((1, 2) * 2**64),
        lambda x: x[0] + len((1, 2) * 2**40),
    ],
)
def test_no_mistake_is_an_error_without_a_place(kernel):
    """What Python raises while a kernel is read says where that is."""
    with pytest.raises(npt.StencilError) as caught:
        npt.stencil(kernel)(np.arange(4), boundary="nearest")
    assert "lambda x:" in caught.value.diagnostic.span.text


def test_source_changed_after_import(tmp_path, monkeypatch):
    module = tmp_path / "edited_kernel.py"
    module.write_text("def smooth(x):\n    return x[-1] + x[1]\n")
    monkeypatch.syspath_prepend(tmp_path)
    smooth = __import__("edited_kernel").smooth
    module.write_text("# A new line, and\ndef smooth(x):\n    return x[-1] + 2 * x[1]\n")
    with pytest.raises(npt.StencilError, match=r"has changed since .*\[source-changed\]"):
        npt.stencil(smooth)
    module.write_text("def smooth(x):\n    return x[-1] + 3 * x[1]\n")
    with pytest.raises(npt.StencilError, match="source-changed"):
        npt.stencil(smooth)
    module.write_text("def smooth(x:\n")
    with pytest.raises(npt.StencilError, match="source-"):
        npt.stencil(smooth)


def test_lambdas_without_places_are_ambiguous(tmp_path):
    program = tmp_path / "ambiguous.py"
    program.write_text(
        "import ninepoint as npt\n"
        "a, b = (npt.stencil(lambda x: x[-1]), npt.stencil(lambda x: x[1]))\n"
    )
    command = [sys.executable, "-X", "no_debug_ranges", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "several lambdas that cannot be told apart. [lambda-ambiguous]" in done.stderr
    assert "line 2" in done.stderr


@pytest.mark.parametrize("boundary", ["fill", "wrap"])
def test_function_of_another_package_is_shown_where_it_is_called(boundary):
    pd = pytest.importorskip("pandas")

    def missing(value):
        return pd.isna(value)

    def filled(x):
        return 0 if missing(x[0]) else x[0]

    with pytest.raises(npt.StencilError, match=r"'pd.isna' cannot be compiled") as caught:
        npt.stencil(filled)(np.zeros(5), boundary=boundary)
    found = caught.value.diagnostic
    assert found.code == "foreign-function"
    assert found.span.file == __file__
    assert found.span.text.strip() == "return pd.isna(value)"
    assert found.help == "Use np.isnan."


def test_function_of_the_standard_library_is_shown_where_it_is_called():
    def smooth(x):
        return statistics.fmean((x[-1], x[0], x[1]))

    with pytest.raises(npt.StencilError, match=r"'statistics.fmean'") as caught:
        npt.stencil(smooth)(np.zeros(5))
    assert "statistics.fmean" in caught.value.diagnostic.span.text


def test_function_of_another_package_that_cannot_even_be_captured():
    ndimage = pytest.importorskip("scipy.ndimage")

    def smooth(x):
        return ndimage.gaussian_filter(x[0], 2)

    with pytest.raises(npt.StencilError, match=r"gaussian_filter") as caught:
        npt.stencil(smooth)(np.zeros(5))
    assert caught.value.diagnostic.span.file == __file__


def test_explain_refuses_what_it_does_not_know():
    smooth = npt.stencil(lambda x: x[-1] + x[1])
    with pytest.raises(TypeError, match=r"no parameter 'mode'; it has x; .* boundary="):
        smooth.explain("uint8", mode="wrap")
    with pytest.raises(
        npt.StencilError, match=r"'mode'; what lies beyond the border is boundary="
    ):
        npt.stencil(lambda x: smooth(x, mode="wrap")[0])


def test_numba_function_that_calls_a_stencil():
    smooth = npt.stencil(lambda x: x[-1] + x[1])

    @numba.njit
    def twice(x):
        return smooth(x) * 2

    with pytest.raises(numba.TypingError, match="makes whole arrays, so no function that Numba"):
        twice(np.zeros(5))


def test_name_that_is_too_long_for_a_file():
    names = {}
    name = "f" * 240
    text = f"def {name}(x):\n    return x[-1] + x[1]\n"
    linecache.cache["<long>"] = (len(text), None, text.splitlines(keepends=True), "<long>")
    exec(compile(text, "<long>", "exec"), names)
    assert npt.stencil(names[name])(np.arange(3)).tolist() == [0, 2, 0]


def test_not_compiled_says_why():
    @npt.stencil
    def middle(x):
        buffer = np.zeros(3)
        for k in range(3):
            buffer[k] = x[k - 1]
        buffer.partition(1)
        return buffer[1]

    with pytest.raises(npt.StencilError, match=r"(?s)\[not-compiled\].*partition") as caught:
        middle(np.zeros(5))
    assert "buffer.partition(1)" in caught.value.diagnostic.span.text


def test_what_numba_cannot_compile_is_named():
    """A name of small letters before an address is not taken for words."""

    @npt.stencil(performance_warnings=False)
    def kernel(x):
        return np.nanmean(x[-1:2], keepdims=True)

    words = r"(?s)No implementation of function 'nanmean' for these arguments"
    with pytest.raises(npt.StencilError, match=words):
        kernel(np.zeros(3))


def test_more_than_memory_is_a_memory_error():
    @npt.stencil
    def smooth(x):
        return x[-1] + x[1]

    with pytest.raises(MemoryError):
        smooth(np.broadcast_to(0.0, 2**47))


def test_nothing_is_written_before_an_error():
    @npt.stencil
    def edges(x):
        return x[-1], x[1]

    out = np.full(5, 7.0), np.full(4, 7.0)
    with pytest.raises(ValueError, match="shape"):
        edges(np.zeros(5), out=out)
    assert all((one == 7).all() for one in out)


def test_standard_indexing_takes_one_name():
    @npt.stencil(standard_indexing="w")
    def weigh(x, w):
        return w[0] * x[-1] + w[1] * x[1]

    result = weigh(np.array([1, 2, 3, 4]), np.array([10, 1]), boundary="nearest")
    np.testing.assert_array_equal(result, [12, 13, 24, 34])
