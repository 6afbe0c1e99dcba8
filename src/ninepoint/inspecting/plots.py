"""Plots of measurements: what the machine allows, and where a call stands below that.

points/s |      ____________   operations: the more of them, the lower
         |    /
         |   /  x              the call
         |  / memory
         +----------------->   operations for each byte that is read or written
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..undisturbed import imported
from .displays import rate_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Grey text and lines are read on white and on black; the colours are told apart by everybody
# (Okabe and Ito, 2008).
_GREY = "#808080"
_ROOFS = ("#0072b2", "#56b4e9")
_POINT = "#e69f00"


@dataclass(frozen=True, slots=True, repr=False)
class Plot:
    """A picture that a notebook shows and that can be saved.

    Attributes
    ----------
    figure : matplotlib.figure.Figure
        The picture, to be changed as any other.
    """

    figure: Figure

    def save(self, path: str | Path) -> None:
        """Write the picture to a file.

        Parameters
        ----------
        path : str or Path
            Its suffix says the format: .svg, .png, or another that matplotlib knows.
        """
        suffix = Path(path).suffix
        if not suffix:
            raise ValueError(f"{str(path)!r} does not say which format; end it with .svg or .png.")
        # Without a date equal figures are equal files.
        plain = {"metadata": {"Date": None}} if suffix.lower() == ".svg" else {}
        with matplotlib().rc_context({"svg.hashsalt": "ninepoint"}):
            self.figure.savefig(path, transparent=True, **plain)

    def __repr__(self) -> str:
        return "<plot; save(path) writes it, figure is matplotlib's>"

    def _repr_svg_(self) -> str:
        """Give the picture to a notebook."""
        written = io.StringIO()
        with matplotlib().rc_context({"svg.hashsalt": "ninepoint"}):
            self.figure.savefig(written, format="svg", transparent=True)
        return written.getvalue()


def matplotlib() -> Any:
    """Give the package, or tell how it is installed."""
    try:
        return imported("matplotlib")
    except ImportError as error:
        raise ImportError("plot() needs matplotlib: pip install matplotlib") from error


def roofline(
    title: str,
    memory: Sequence[tuple[str, float]],
    most: float,
    each: float,
    rate: float,
    bytes_: float,
) -> Plot:
    """Draw what memory and operations allow, and a call.

    Parameters
    ----------
    title : str
        What was called.
    memory : sequence of (str, float)
        Memories with their names, and how fast they are copied [bytes/s]; the fastest first.
    most : float
        Lanes that are computed at most [bytes/s].
    each : float
        Lanes that are computed for a point [bytes].
    rate : float
        How fast the call is [points/s].
    bytes_ : float
        What it reads and writes for a point [bytes].
    """
    matplotlib()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.add_subplot()
    at = each / bytes_
    ends = [at, *(most / speed for _, speed in memory)]
    x = np.geomspace(min(ends) / 4, max(ends) * 4, 64)
    for (name, speed), colour in zip(memory, _ROOFS, strict=False):
        axes.plot(
            x,
            np.minimum(speed * x, most) / 1e9,
            color=colour,
            label=f"{name}: {rate_text(speed, 'B')}",
        )
    axes.plot(
        [at],
        [rate * each / 1e9],
        "o",
        color=_POINT,
        markersize=9,
        zorder=3,
        label=f"this call: {rate_text(rate, 'point')}",
    )
    axes.axvline(at, color=_POINT, linewidth=0.8, linestyle=":")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("bytes of lanes computed for each byte read or written")
    axes.set_ylabel("GB of lanes a second")
    axes.set_title(title, fontsize=11)
    axes.legend(loc="lower right", fontsize=9, labelcolor=_GREY, framealpha=0)
    greyed(axes)
    return Plot(figure)


def greyed(axes: Any) -> None:
    """Draw what surrounds the figures in a grey that is read on white and on black."""
    axes.tick_params(which="both", colors=_GREY)
    axes.xaxis.label.set_color(_GREY)
    axes.yaxis.label.set_color(_GREY)
    axes.title.set_color(_GREY)
    axes.patch.set_alpha(0)
    for spine in axes.spines.values():
        spine.set_color(_GREY)
    axes.grid(color=_GREY, alpha=0.25, linewidth=0.6)
