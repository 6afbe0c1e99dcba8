"""The search for a schedule, told by a clock of its own which are fast."""

import numpy as np

import ninepoint as npt
from ninepoint.inspecting.measuring import search


def test_it_takes_what_is_faster():
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


def test_what_gives_other_bits_is_not_taken():
    def variant(schedule):
        return schedule.tile, lambda: np.array([1.0 + schedule.tile])

    found = search(npt.Schedule(), [{"tile": 5}], variant, 30)
    assert found.schedule == npt.Schedule()
    assert not found.trials
