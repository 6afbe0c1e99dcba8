"""Every text is compiled for GPUs of three generations, and few functions spill registers.

`pytest tests/backends/cuda/test_compiles.py --update-golden` writes anew what spills; a longer
run over other seeds is `python tests/random_texts.py FIRST LAST`.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import machine_code
import random_texts

pytestmark = pytest.mark.skipif(machine_code.NVCC is None, reason="needs nvcc")

HERE = Path(__file__).parent
SPILLED = HERE / "spilled.json"
SEEDS = range(15)

# Bytes that another nvcc may spill besides.
MORE = 64


@pytest.fixture(scope="module")
def made():
    texts = {path.stem: path.read_text(encoding="utf-8") for path in HERE.glob("golden/*.cu")}
    texts |= dict(random_texts.texts(SEEDS))
    return texts, machine_code.in_parts(texts, random_texts.ARCHITECTURES, 15)


def test_every_text_compiles_for_each_architecture(made):
    texts, found = made
    assert len(texts) > 20
    assert {name.split()[0] for name in texts} >= {"kernel", "steps", "pipeline"}
    wanted = {
        (arch, name, function)
        for arch in random_texts.ARCHITECTURES
        for name, text in texts.items()
        for function in machine_code.functions(text)
    }
    assert wanted == set(found)


def test_only_those_spill_of_which_it_is_known(made, request):
    """By the architecture, the name of a text and the function: bytes."""
    spilled = {" ".join(key): one.spilled for key, one in made[1].items() if one.spilled}
    if request.config.getoption("--update-golden"):
        SPILLED.write_text(json.dumps(spilled, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    known = json.loads(SPILLED.read_text(encoding="utf-8"))
    worse = {key: size for key, size in spilled.items() if size > known.get(key, 0) + MORE}
    assert worse == {}
