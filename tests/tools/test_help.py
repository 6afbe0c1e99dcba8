"""What Python and IPython show of the public names: `dir`, `help`, signatures, completed names."""

import inspect
import pickle
import pydoc

import numpy as np
import pytest

import ninepoint as npt


@npt.stencil
def smooth(x, weight=1.0):
    """Add the neighbours."""
    return weight * (x[-1] + x[1])


@npt.ufunc
def half(x):
    return x / 2


@npt.gufunc("(n)->()")
def total(x, scale=1):
    return np.sum(x) * scale


def test_only_public_names_are_shown():
    for module in (npt, npt.filters, npt.shapes):
        assert dir(module) == sorted(module.__all__)
    for function in (smooth, half, total):
        shown = {name for name in dir(function) if not name.startswith("_")}
        assert shown.isdisjoint({"definition", "kind", "with_numbers"})
        assert {"debug", "explain"} <= shown


CALL = (
    "boundary=None, cval=None, axes=None, dims=None, out=None, dtype=None, overflow=None, "
    "every=None, upsample=None, threads=None, device=None)"
)
GUFUNC = (
    "out=None, axes=None, axis=None, keepdims=None, dtype=None, sizes=None, dims=None, "
    "threads=None)"
)
FILTER = (
    "boundary='reflect', cval=0, axes=None, dims=None, out=None, dtype=None, every=None, "
    "threads=None, device=None)"
)


@pytest.mark.parametrize(("function", "signature"), [
    (smooth, f"(x, weight=1.0, *, {CALL}"),
    (half, "(x, *, out=None, dtype=None, overflow=None, threads=None, device=None)"),
    (total, f"(x, scale=1, *, {GUFUNC}"),
    (npt.filters.gaussian, f"(x, sigma=1.0, truncate=4.0, *, order=0, {FILTER}"),
    (npt.ufunc, "(function, /, *, dtype=None, overflow=None, fastmath=False, schedule=None)"),
])  # fmt: skip
def test_signatures_have_the_options(function, signature):
    assert str(inspect.signature(function)) == signature
    assert signature in pydoc.plain(pydoc.render_doc(function))


def test_help_shows_the_users_words():
    for function in (smooth, npt.stencil(lambda x: x[0])):
        shown = pydoc.plain(pydoc.render_doc(function))
        assert "class Stencil" not in shown
        assert function is not smooth or "Add the neighbours." in shown
    shown = pydoc.plain(pydoc.render_doc(npt.stencil))
    assert "object at 0x" not in shown
    words = ["reflect", "keep", "valid", "mirror", "wrap", "dirichlet", "overflow : {", "cval"]
    assert [word for word in words if word not in shown] == []


def test_signature_and_words_come_in_pickles_too():
    def mine(x, /, gain=2, *, w):
        """Say what it is."""
        return gain * x[0] * w

    def copied(one):
        return pickle.loads(pickle.dumps(one))

    made = npt.stencil(mine).definition
    # As in a process that did not decorate it.
    there = npt.Stencil(copied(type(made)(copied(made.function), made.options)))
    assert str(inspect.signature(there)).startswith("(x, /, gain=2, *, w, boundary=None, ")
    assert there.__doc__ == "Say what it is."
