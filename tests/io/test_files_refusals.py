"""What imsave refuses, and what is on the disk after a failure."""

from __future__ import annotations

import os
import resource
import sys
from contextlib import contextmanager

import dask
import dask.array as da
import numpy as np
import pytest

from ninepoint import ImageReadError, imread, imsave

STACK = np.arange(3 * 4 * 5, dtype=np.uint8).reshape(3, 4, 5)

# What else is refused is on the page of messages about files.


@pytest.mark.parametrize("pattern", ["{0.real.__class__}.png", "{:>1000000000}.png", "{:{}}.png",
                                     "{" * 10**6 + "}" * 10**6 + ".png", "{}" * 10**5 + ".png"],
                         ids=range(5))  # fmt: skip
def test_hostile_patterns(pattern):
    words = "should hold one {}|only the name of the file|too long"
    with pytest.raises(ValueError, match=words):
        imsave(np.zeros((20, 3, 3), np.uint8), pattern)


def lying():
    return da.from_array(STACK).map_blocks(lambda block: block / 2, dtype=np.uint8)


def unknown():
    array = da.from_array(STACK, chunks=1)
    return array[array[:, 0, 0] > 3]


@pytest.mark.parametrize(
    ("array", "error", "words"),
    [
        (unknown, ValueError, r"unknown sizes; call array.compute_chunk_sizes\(\)"),
        (lying, TypeError, r"a chunk of the Dask array is \(1, 4, 5\) float64, but"),
    ],
)
def test_nothing_is_written_of_what_is_refused(tmp_path, array, error, words):
    with pytest.raises(error, match=words):
        imsave(array(), tmp_path / "{}.png")
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_may_be_in_the_way(tmp_path):
    (tmp_path / "out").write_text("a file")
    with pytest.raises(NotADirectoryError, match="out' is a file; imsave needs a folder there"):
        imsave(STACK, tmp_path / "out" / "{}.png")
    (tmp_path / "1.png").mkdir()
    words = "is not written; the files that are there"
    with pytest.raises(IsADirectoryError, match=words):
        imsave(STACK, tmp_path / "{}.png", overwrite=True)
    assert not list(tmp_path.glob(".*"))
    imsave(STACK[:1], tmp_path / "new" / "{}.png")
    with pytest.raises(FileExistsError, match=r"0\.png' exists; overwrite=True replaces"):
        imsave(STACK, tmp_path / "new" / "{}.png")
    assert len(list((tmp_path / "new").iterdir())) == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError, match="cannot be written"):
        imsave(STACK, tmp_path / "{}.png")


@pytest.mark.parametrize("layers", ["direct", "computed", "optimised", "through a link"])
def test_never_onto_a_source(tmp_path, layers):
    imsave(STACK, tmp_path / "{}.png")
    folder = tmp_path
    if layers == "through a link":
        folder = tmp_path / "link"
        folder.symlink_to(tmp_path)
    frames = imread(folder)
    if layers == "computed":
        frames = 255 - frames.rechunk((3, 2, 2))[::-1]
    if layers == "optimised":
        (frames,) = dask.optimize(255 - frames)
    with pytest.raises(ValueError, match=r"would overwrite '.*0\.png', from which the array is"):
        imsave(frames, tmp_path / "{}.png")
    np.testing.assert_array_equal(imread(tmp_path).compute(), STACK)
    imsave(frames, tmp_path / "new" / "{}.png")


@pytest.mark.parametrize(
    ("source", "target", "refused"),
    [
        ("", "new{}.tif", True),
        ("**/*.png", "new{}.png", True),
        ("../*/?.png", "7.png", True),
        ("link/*.png", "new{}.png", True),
        ("[0-3].png", "{:d}0.png", True),
        ("*.png", "new{}.tif", True),
        ("*.png", "deep/{}.png", False),
        ("0.png", "new{}.png", False),
        (["0.png", "1.png"], "new{}.png", True),
        (["0.png"], "new{}.png", False),
    ],
)
def test_results_never_lie_among_their_inputs(tmp_path, source, target, refused):
    folder = tmp_path / "in"
    imsave(STACK, folder / "{}.png")
    (folder / "deep").mkdir()
    (folder / "link").symlink_to(folder)
    is_list = isinstance(source, list)
    x = imread([folder / name for name in source] if is_list else f"{folder}/{source}")
    y = 255 - (x[:1] if target == "7.png" else x)
    if not refused:
        imsave(y, folder / target)
        return
    before = sorted(folder.rglob("*"))
    with pytest.raises(ValueError, match=r"would write .* among the files .* another folder"):
        imsave(y, folder / target)
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize(
    ("name", "words"),
    [("a.WEBP", "imageio"), ("a.mp4", "videos"), ("a.nc", r"ninepoint\.open")],
)
def test_other_files_are_pointed_elsewhere(tmp_path, name, words):
    path = tmp_path / name
    path.write_bytes(b"GIF89a")
    for source in (path, [path]):
        with pytest.raises(ImageReadError, match=words) as caught:
            imread(source)
        assert str(path) in str(caught.value)


@pytest.mark.parametrize("name", ["{}.png", "stack.tif"])
def test_a_computation_that_fails_keeps_what_was_there(tmp_path, name):
    old = imsave(STACK[::-1], tmp_path / name)
    before = old[-1].read_bytes()

    def fail(block, block_id=None):
        if block_id[0] == 2:
            raise RuntimeError("this frame is cursed")
        return block

    array = da.from_array(STACK, chunks=(1, -1, -1)).map_blocks(fail, dtype=np.uint8)
    with pytest.raises(RuntimeError, match="cursed"):
        imsave(array, tmp_path / name, overwrite=True)
    assert sorted(tmp_path.iterdir()) == sorted(old)
    assert old[-1].read_bytes() == before


@contextmanager
def files_of_at_most(size):
    """The disk is full where a file grows larger."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("lazy", [True, False])
@pytest.mark.parametrize("name", ["{}.png", "{}.jpg", "{}.tif", "stack.tif"])
def test_disk_full(tmp_path, name, lazy):
    """Frame 3 is noise, whose file is larger than allowed."""
    stack = np.zeros((5, 200, 300), np.uint8)
    stack[3] = np.random.default_rng(0).integers(0, 256, (200, 300))
    old = imsave(np.full_like(stack, 7), tmp_path / name)
    before = [path.read_bytes() for path in old]
    given = da.from_array(stack, chunks=(2, 100, -1)) if lazy else stack
    one_by_one = name in ("{}.png", "{}.jpg")
    with (
        dask.config.set(scheduler="synchronous"),
        files_of_at_most(50_000 if one_by_one else 59_000),
        pytest.raises(OSError, match="File too large") as caught,
    ):
        imsave(given, tmp_path / name, overwrite=True)
    assert set(tmp_path.iterdir()) == set(old)
    if not one_by_one:
        assert [path.read_bytes() for path in old] == before
        return
    assert "[3:4, 0:200, 0:300] is not written; the files that are there are whole" in str(
        caught.value
    )
    assert old[3].read_bytes() == before[3]
    found = imread(old).compute()
    assert all((a == b).all() or (a == 7).all() for a, b in zip(found, stack, strict=True))


def test_a_missing_extra_is_named(tmp_path, monkeypatch):
    """A module that is set to None cannot be imported: the way Python offers to forbid one."""
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError, match=r"needs 'PIL', which cannot be.*pip install pillow"):
        imread(tmp_path)
