"""What every run of the suite tries, and what only `make nightly` tries."""

from collections.abc import Iterable
from typing import Any

import pytest


def only(number: int, values: Iterable[Any]) -> list[Any]:
    """Values for `parametrize`, of which a usual run takes `number`, spread over all of them."""
    all_of_them = list(values)
    taken = {k * len(all_of_them) // number for k in range(number)}
    return [value if k in taken else at_night(value) for k, value in enumerate(all_of_them)]


def at_night(value: Any) -> Any:
    """The value, which only a nightly run takes."""
    if hasattr(value, "marks"):
        return pytest.param(*value.values, id=value.id, marks=pytest.mark.nightly)
    values = value if isinstance(value, tuple) else (value,)
    return pytest.param(*values, marks=pytest.mark.nightly)
