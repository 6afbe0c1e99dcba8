"""One figure beside what is aimed at."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """A figure, and the most that it should be, or the least where more is better."""

    name: str
    figure: float
    aim: float
    unit: str = "x"
    more_is_better: bool = False

    @property
    def met(self) -> bool:
        """Whether the figure is as good as aimed at."""
        return self.figure >= self.aim if self.more_is_better else self.figure <= self.aim

    def __str__(self) -> str:
        sign = ">=" if self.more_is_better else "<="
        met = "met" if self.met else "MISSED"
        figure, aim = f"{self.figure:.3g} {self.unit}", f"{sign} {self.aim:.3g} {self.unit}"
        return f"{self.name:<64} {figure:>14}  {aim:>14}  {met}"
