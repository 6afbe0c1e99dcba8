"""What Python shows of public names, and a report of the machine; what tuning keeps."""

import inspect
import os
import pickle
import pydoc
import sys
from pathlib import Path

import numpy as np
import pytest

import ninepoint as npt
from ninepoint.inspecting.measuring import search
from own_process import printed


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


def test_help_shows_the_users_words_which_come_in_pickles_too():
    for function in (smooth, npt.stencil(lambda x: x[0])):
        shown = pydoc.plain(pydoc.render_doc(function))
        assert "class Stencil" not in shown
        assert function is not smooth or "Add the neighbours." in shown
    shown = pydoc.plain(pydoc.render_doc(npt.stencil))
    assert "object at 0x" not in shown
    words = ["reflect", "keep", "valid", "mirror", "wrap", "dirichlet", "overflow : {", "cval"]
    assert [word for word in words if word not in shown] == []

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


STANDIN = Path(__file__).parents[1] / "cuda" / "standin"


def told(*folders):
    """What a new process says of its GPU, which finds CuPy in one of these folders."""
    paths = os.pathsep.join([*map(str, folders), *filter(None, sys.path)])
    words = "import ninepoint as npt; print(npt.info())"
    lines = printed("-c", words, PYTHONPATH=paths).splitlines()
    return next(line.removeprefix("  GPU").strip() for line in lines if line.startswith("  GPU"))


def test_the_gpu_and_its_driver_are_named():
    assert told(STANDIN) == "2 x Stand-in, compute capability 9.0, 16 GiB; driver for CUDA 13.0"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("raise ImportError('libcuda is gone')", "cannot be imported (libcuda is gone)"),
        (
            "class cuda:\n class runtime:\n  class CUDARuntimeError(RuntimeError): status = 100\n"
            "  def getDeviceCount(): raise cuda.runtime.CUDARuntimeError('none')",
            "there is no GPU to compute on",
        ),
        pytest.param(
            "import time\nclass cuda:\n class runtime:\n  def getDeviceCount(): time.sleep(3600)",
            "CUDA has not answered within",
            marks=pytest.mark.nightly,
        ),
    ],
)
def test_why_there_is_none(tmp_path, text, words):
    (tmp_path / "cupy.py").write_text(text)
    said = told(tmp_path)
    assert said.startswith("not used: ")
    assert words in said


X = np.random.default_rng(3).integers(0, 50, (60, 70)).astype("float32")


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("NINEPOINT_CACHE_DIR", str(tmp_path))


slope = npt.stencil(lambda x: x[0, 1] - x[0, -1] + 2 * (x[1, 0] - x[-1, 0]), boundary="reflect")


def make():
    @npt.stencil(boundary="reflect")
    def energy(x):
        s = slope(x)
        return (s[-1:2, -1:2] * s[-1:2, -1:2]).sum()

    return energy


def test_the_fastest_is_kept_nothing_changes_and_a_damaged_file_is_none():
    energy = make()
    before = energy(X)
    found = energy.tune(X, seconds=1)
    assert found.path.exists()
    assert found.trials
    assert "best: " in str(found)
    assert energy.schedule("float32") == energy.schedule(X) == found.schedule
    np.testing.assert_array_equal(energy(X), before)
    # Another stencil of the same meaning finds it, as one of another process does.
    again = make()
    assert again.schedule("float32") == found.schedule
    assert again.schedule("float64") == npt.Schedule()
    path = slope.tune(X, seconds=0.1).path
    for content in (b"", path.read_bytes()[:-1]):
        path.write_bytes(content)
        with pytest.warns(RuntimeWarning, match="does not use .*: it is damaged"):
            found = npt.stencil(boundary="reflect")(slope.__wrapped__).schedule("float32")
        assert found == npt.Schedule()


def test_it_takes_what_is_faster_and_gives_the_same_bits():
    """Told by a clock of its own: which of real schedules is faster is not for a test to say."""
    naps = {"rows": 0.02, "inline": 0.004, "whole": 0.03, "": 0.015}

    def variant(schedule):
        how = dict(schedule.stages).get("s", "")
        code = f"import time; time.sleep({naps[how]})"
        return how, lambda: exec(code) or np.zeros(3)

    choices = [{"stages": (("s", how),)} for how in ("rows", "inline", "whole")]
    found = search(npt.Schedule(), choices, variant, 30)
    assert found.schedule.stages == (("s", "inline"),)
    # A nap takes longer on a busy machine, the shorter ones by a greater part.
    assert found.gain > 1.1
    assert len(found.trials) == 3

    def variant(schedule):
        return schedule.tile, lambda: np.array([1.0 + schedule.tile])

    found = search(npt.Schedule(), [{"tile": 5}], variant, 30)
    assert found.schedule == npt.Schedule()
    assert not found.trials
