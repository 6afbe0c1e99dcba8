"""Tuning measures other schedules, keeps the best on disk, and changes no result."""

import numpy as np
import pytest

import ninepoint as npt

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


def test_the_fastest_is_kept_and_nothing_changes():
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


def test_a_damaged_file_is_as_if_it_were_not_there():
    path = slope.tune(X, seconds=0.1).path
    for content in (b"", path.read_bytes()[:-1]):
        path.write_bytes(content)
        with pytest.warns(RuntimeWarning, match="does not use .*: it is damaged"):
            found = npt.stencil(boundary="reflect")(slope.__wrapped__).schedule("float32")
        assert found == npt.Schedule()
