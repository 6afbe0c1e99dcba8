"""Tuning measures other schedules, keeps the best on disk, and changes no result."""

from __future__ import annotations

import json

import numpy as np
import pytest

import ninepoint as npt


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("NINEPOINT_CACHE_DIR", str(tmp_path))


def image(shape=(60, 70), dtype="float32"):
    return np.random.default_rng(3).integers(0, 50, shape).astype(dtype)


@npt.stencil(boundary="reflect")
def slope(x):
    return x[0, 1] - x[0, -1] + 2 * (x[1, 0] - x[-1, 0])


def make():
    @npt.stencil(boundary="reflect")
    def energy(x):
        s = slope(x)
        return (s[-1:2, -1:2] * s[-1:2, -1:2]).sum()

    return energy


def test_the_fastest_is_kept_and_nothing_changes():
    energy, x = make(), image()
    before = energy(x)
    found = energy.tune(x, seconds=0.5)
    assert found.path.exists()
    assert found.trials
    assert "best: " in str(found)
    assert energy.schedule("float32") == found.schedule
    np.testing.assert_array_equal(energy(x), before)
    # Another stencil of the same meaning finds it, as one of another process does.
    again = make()
    assert again.schedule("float32") == found.schedule
    assert again.schedule("float64") == npt.Schedule()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"tile": "wide"}', '{"other": 1}', "null"])
def test_a_damaged_file_is_as_if_it_were_not_there(text):
    x = image()
    path = make().tune(x, seconds=0.1).path
    path.write_text(json.dumps(json.loads(path.read_text()) | {"tile": 64}))
    assert make().schedule("float32").tile == 64
    path.write_text(text)
    energy = make()
    assert energy.schedule("float32") == npt.Schedule()
    assert energy(x).shape == x.shape


def test_one_kernel():
    @npt.stencil(boundary="reflect")
    def spread(x):
        return x[-3:4, -3:4].max() - x[-3:4, -3:4].min()

    x = image(dtype="uint8")
    before = spread(x)
    found = spread.tune(x, seconds=1)
    np.testing.assert_array_equal(spread(x), before)
    assert spread.schedule(x) == found.schedule


def test_refusals():
    x = image()
    scheduled = npt.stencil(schedule=npt.Schedule(tile=3))(slope.__wrapped__)
    with pytest.raises(ValueError, match="decorated with a schedule"):
        scheduled.tune(x)
    with pytest.raises(ValueError, match="'x' is empty"):
        slope.tune(x[:0])
    with pytest.raises(TypeError, match="measures arrays of NumPy"):
        slope.tune(x.tolist())
