"""Plots of measurements: saved as SVG and PNG, and drawn where the figures say."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from xml.etree import ElementTree

import numpy as np
import pytest

import ninepoint as npt

pytest.importorskip("matplotlib")


@npt.stencil
def mean(x):
    return x[-1:2, -1:2].mean()


MEASURED = mean.bench(np.zeros((100, 100), np.uint8), repeat=1, threads=1)
FOUND = dataclasses.replace(
    MEASURED,
    points=10_000,
    bytes=20_000,
    seconds=1e-5,
    limits=dataclasses.replace(MEASURED.limits, near=64e9, far=8e9, add=10e9),
    lanes=12.0,
)


def test_the_point_and_the_roofs_are_where_the_figures_say():
    (axes,) = FOUND.plot().figure.axes
    *roofs, point, _ = axes.lines
    # 12 bytes of lanes for each 2 of memory, 1 Gpoint/s.
    np.testing.assert_allclose(point.get_xydata(), [[6.0, 12.0]])
    for roof, speed in zip(roofs, (64, 8), strict=True):
        x, y = roof.get_data()
        np.testing.assert_allclose(y, np.minimum(x * speed, 80))
        # Both slopes are seen.
        assert x[0] < 80 / speed < x[-1]
    texts = [text.get_text() for text in axes.get_legend().get_texts()]
    assert texts == [
        "copy in cache: 64 GB/s", "copy beyond: 8 GB/s", "this call: 1 Gpoint/s",
    ]  # fmt: skip
    assert axes.get_title() == "mean(100x100 uint8), 1 thread"


def test_it_is_saved_as_svg_and_png(tmp_path):
    FOUND.plot(tmp_path / "a.svg").save(tmp_path / "b.png")
    assert ElementTree.parse(tmp_path / "a.svg").getroot().tag.endswith("svg")
    assert (tmp_path / "b.png").read_bytes().startswith(b"\x89PNG")
    FOUND.plot(str(tmp_path / "again.svg"))
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "again.svg").read_bytes()
    with pytest.raises(ValueError, match=r"does not say which format; end it with .svg or .png"):
        FOUND.plot(tmp_path / "a")


def test_a_notebook_shows_it():
    plot = FOUND.plot()
    assert "<svg" in plot._repr_svg_()
    assert repr(plot) == "<plot; save(path) writes it, figure is matplotlib's>"


def test_a_measured_call():
    @npt.stencil
    def nine(x):
        return x[-1:2, -1:2].sum()

    found = nine.bench(np.zeros((200, 200), np.uint8), repeat=1)
    assert found.lanes > 0
    (axes,) = found.plot().figure.axes
    assert axes.get_title().startswith("nine(200x200 uint8), ")


def test_what_is_not_counted_is_not_drawn():
    with pytest.raises(ValueError, match=r"operations of 'mean' are not counted"):
        dataclasses.replace(FOUND, lanes=None).plot()


def test_without_matplotlib_it_is_told_what_to_install(tmp_path):
    script = """
import sys
sys.modules["matplotlib"] = None
import numpy as np
import ninepoint as npt
@npt.stencil
def added(x):
    return x[0] + x[1]
try:
    added.bench(np.ones(99), repeat=1).plot()
except ImportError as error:
    print(error)
"""
    file = tmp_path / "script.py"
    file.write_text(script)
    done = subprocess.run([sys.executable, file], capture_output=True, text=True)
    assert done.stdout == "plot() needs matplotlib: pip install matplotlib\n", done.stderr
