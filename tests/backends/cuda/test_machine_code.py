"""What nvcc makes of texts: nothing is spilled or contracted, and few instructions a point."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import machine_code
import works

pytestmark = pytest.mark.skipif(machine_code.NVCC is None, reason="needs nvcc")

# Instructions a point that are not to be exceeded, for sm_90: a person may lower them.
MOST = json.loads((Path(__file__).parent / "instructions.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def made():
    chosen = [work for work in works.COUNTED if work.name in MOST]
    sources = [work.source()[0] for work in chosen]
    code = machine_code.CUOBJDUMP is not None
    texts = [machine_code.inside(source.text) for source in sources]
    return chosen, sources, machine_code.reports(texts, "sm_90", code=code)


def test_nothing_is_spilled(made):
    _, _, reports = made
    assert {name: one.spilled for name, one in reports.items() if one.spilled} == {}


@pytest.mark.skipif(machine_code.CUOBJDUMP is None, reason="needs cuobjdump")
def test_few_instructions(made):
    for number, (work, source) in enumerate(zip(*made[:2], strict=True)):
        total = 0.0
        for launch in source.launches:
            found = made[2][f"{launch.function}.{number}"]
            marches = launch.least > 0
            points = np.prod(launch.tile[marches:]) / np.prod(launch.threads)
            code = len(found.instructions)
            total += (found.looped / machine_code.turns(source.text) if marches else code) / points
            assert not found.count("FFMA", "DFMA", "LDL", "STL"), work.name
            assert found.count("LDG.E.128", "LDG.E.64"), work.name
            assert found.count("STG.E.128", "STG.E.64"), work.name
        assert total <= MOST[work.name], f"{work.name}: {total:.1f} instructions a point"
