"""What a report says of the machine: of its GPU too, without waiting for ever."""

import os
import sys
from pathlib import Path

import pytest

from own_process import printed

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
