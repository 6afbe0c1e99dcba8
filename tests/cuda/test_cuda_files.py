"""Frames from files, through a GPU, to files; and chunks of Dask there and back."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

import ninepoint as npt
from ninepoint.cli import main

da = pytest.importorskip("dask.array")

KERNELS = """\
import ninepoint as npt

@npt.stencil(boundary="reflect")
def smooth(x):
    return (x[-1, 0] + x[0, -1] + x[0, 0] + x[0, 1] + x[1, 0]) // 5

@npt.stencil(boundary="nearest")
def before(x):
    return x[0, 0, 0] // 2 + x[-1, 0, 0] // 2

@npt.stencil(neighborhood=((-1, 1), (-1, 1)))
def searching(x):
    total = 0
    k = -1
    while k < 2:
        total += x[k, 0]
        k += 1
    return total // 3

@npt.stencil
def halvings(x):
    count = 0
    while x[0, 0] > 2**count:
        count += 1
    return count

@npt.ufunc
def inverted(x):
    return 255 - x
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder to work in, with kernels.py and seven frames."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernels.py").write_text(KERNELS)
    (tmp_path / "frames").mkdir()
    frames = np.random.default_rng(0).integers(0, 256, (7, 31, 45), dtype=np.uint8)
    for k, frame in enumerate(frames):
        Image.fromarray(frame).save(tmp_path / "frames" / f"{k}.png")
    return tmp_path


def written(folder):
    return [np.asarray(Image.open(path)) for path in sorted(folder.iterdir())]


@pytest.mark.parametrize(
    ("words", "threads"),
    [
        (("kernels.py:smooth",), "2"),
        (("kernels.py:before",), "1"),
        (("kernels.py:inverted",), "2"),
        (("kernels.py:searching",), "1"),
        (("median", "--param", "size=3"), "2"),
    ],
)
def test_frames_go_through_a_gpu(cupy, here, words, threads):
    kernel, *rest = words
    options = [*rest, "--dtype", "uint8", "--overflow", "saturate", "--quiet"]
    assert main(["apply", kernel, "frames", "plain", *options]) == 0
    cupy.fake.log.clear()
    device = ["--device", "cuda", "--threads", threads]
    assert main(["apply", kernel, "frames", "sent", *options, *device]) == 0
    # Frame by frame, save for a kernel that looks from frame to frame: small ones are one block.
    least = 1 if kernel.endswith("before") else 7
    assert sum("kernel_" in str(one) for one in cupy.fake.log) >= least
    np.testing.assert_array_equal(written(here / "sent"), written(here / "plain"))


def refused(capsys, *words):
    with pytest.raises(SystemExit) as caught:
        main([*words])
    assert caught.value.code == 2
    return capsys.readouterr().err.splitlines()[-1]


def test_without_a_gpu_nothing_is_written(cupy, here, capsys):
    cupy.fake.devices = 0
    words = ("apply", "kernels.py:smooth", "frames", "out", "--device", "cuda")
    said = refused(capsys, *words)
    assert said.startswith("ninepoint: error: --device cuda: there is no GPU to compute on")
    assert not (here / "out").exists()


def test_what_only_the_cpu_computes_is_refused_before_anything_is_written(cupy, here, capsys):
    words = ("apply", "kernels.py:halvings", "frames", "out", "--device", "cuda")
    assert main([*words]) == 1
    assert "cannot be computed on a GPU" in capsys.readouterr().err
    assert not (here / "out").exists()


@npt.stencil(boundary="wrap")
def around(x):
    return x[-1, 0] + x[0, 1]


@npt.stencil(boundary="mirror")
def twice(x):
    once = around(x)
    return once[0, -1] + once[1, 0]


@pytest.mark.parametrize(("stencil", "chunks"), [(around, (5, 50)), (twice, (12, 20))])
def test_chunks_are_sent_one_by_one(cupy, stencil, chunks):
    x = np.random.default_rng(1).random((30, 50))
    lazy = stencil(da.from_array(x, chunks=chunks), device="cuda")
    assert isinstance(lazy._meta, np.ndarray)
    assert not any("kernel_" in str(one) for one in cupy.fake.log)
    made = lazy.compute(scheduler="sync")
    assert type(made) is np.ndarray
    assert any("kernel_" in str(one) for one in cupy.fake.log)
    np.testing.assert_array_equal(made, stencil(x))


def test_blocks_that_find_no_room_beside_others_wait(cupy):
    x = np.random.default_rng(1).random((64, 30))
    lazily = around(da.from_array(x, chunks=(4, 30)), device="cuda")
    # Each takes about 4 kB.
    cupy.fake.room = cupy.fake.used + 5000
    made = lazily.compute(scheduler="threads", num_workers=4)
    np.testing.assert_array_equal(made, around(x))
    cupy.fake.room = cupy.fake.used + 1000
    with pytest.raises(MemoryError, match="the GPU has no room"):
        lazily.compute(scheduler="threads", num_workers=4)


def test_each_thread_has_a_stream_of_its_own(cupy):
    x = da.from_array(np.zeros((40, 30), "float32"), chunks=(5, 30))
    around(x, device="cuda").compute(scheduler="sync")
    streams = {one[1] for one in cupy.fake.log if "kernel_" in str(one)}
    assert len(streams) == 1
    assert streams != {0}
