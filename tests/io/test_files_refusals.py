"""What imsave refuses, and what is on the disk after a failure."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import dask
import dask.array as da
import numpy as np
import pytest
import tifffile

from nightly import only
from ninepoint import ImageReadError, imread, imsave

STACK = np.arange(3 * 4 * 5, dtype=np.uint8).reshape(3, 4, 5)


# The words are on the page of messages about files.
@pytest.mark.parametrize(
    ("array", "name"),
    [(STACK / 99, "{}.png"), (STACK, "a.png"), (STACK[:0], "{}.png"), (STACK, "{}.webp")],
)
def test_nothing_is_written_of_what_is_refused(tmp_path, array, name):
    with pytest.raises((TypeError, ValueError)):
        imsave(array, tmp_path / "out" / name)
    assert list(tmp_path.iterdir()) == []


PATTERNS = [
    "{name}.png", "{0.real.__class__}.png", "{:/>4}.png", "{:.0e}.png", "{:>1000000000}.png",
    "{:01000000000d}.png", "{:c}.png", "{:x}.png", "{:,}.png", "{:{}}.png", "{!r}.png",
    "{0[0]}.png", "{:q}.png", "{" * 10**6 + "}" * 10**6 + ".png", "{}" * 10**5 + ".png",
]  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS, ids=range(len(PATTERNS)))
def test_patterns_that_hold_no_number(pattern):
    words = "should hold one {}|only the name of the file|too long"
    with pytest.raises(ValueError, match=words):
        imsave(np.zeros((20, 3, 3), np.uint8), pattern)


def test_unknown_sizes(tmp_path):
    array = da.from_array(STACK, chunks=1)
    with pytest.raises(ValueError, match=r"unknown sizes; call array.compute_chunk_sizes\(\)"):
        imsave(array[array[:, 0, 0] > 3], tmp_path)


def test_a_dask_array_that_is_not_what_it_says(tmp_path):
    array = da.from_array(STACK).map_blocks(lambda block: block / 2, dtype=np.uint8)
    with pytest.raises(TypeError, match=r"a chunk of the Dask array is \(4, 5\) float64, but"):
        imsave(array, tmp_path)
    assert list(tmp_path.iterdir()) == []


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
        ("", "new{}.png", True),
        ("", "new{}.tif", True),
        ("*.png", "new{}.png", True),
        ("**/*.png", "new{}.png", True),
        ("../*/?.png", "7.png", True),
        ("link/*.png", "new{}.png", True),
        ("[0-3].png", "{:d}0.png", True),
        ("*.png", "new{}.tif", True),
        ("*.png", "deep/{}.png", False),
        ("0.png", "new{}.png", False),
        (["0.png", "1.png"], "new{}.png", True),
        (["0.png", "1.png"], "new{}.tif", True),
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
    [
        ("a.gif", "imageio"),
        ("a.WEBP", "imageio"),
        ("a.mp4", "videos"),
        ("a.npy", r"ninepoint\.open"),
        ("a.nc", r"ninepoint\.open"),
        ("a.h5", r"ninepoint\.open"),
    ],
)
def test_other_files_are_pointed_elsewhere(tmp_path, name, words):
    path = tmp_path / name
    path.write_bytes(b"GIF89a")
    for source in (path, [path]):
        with pytest.raises(ImageReadError, match=words) as caught:
            imread(source)
        assert str(path) in str(caught.value)


def test_a_folder_that_is_a_file(tmp_path):
    (tmp_path / "out").write_text("a file")
    with pytest.raises(NotADirectoryError, match="out' is a file; imsave needs a folder there"):
        imsave(STACK, tmp_path / "out" / "{}.png")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError, match="cannot be written"):
        imsave(STACK, tmp_path / "{}.png")


def test_a_target_that_is_a_folder(tmp_path):
    (tmp_path / "1.png").mkdir()
    with pytest.raises(
        IsADirectoryError, match="frame 1 is not written; the files that are there"
    ):
        imsave(STACK, tmp_path / "{}.png")
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("name", ["{}.png", "stack.tif"])
def test_a_computation_that_fails_keeps_what_was_there(tmp_path, name):
    old = imsave(STACK[::-1], tmp_path / name)
    before = [path.read_bytes() for path in old]

    def fail(block, block_id=None):
        if block_id[0] == 2:
            raise RuntimeError("this frame is cursed")
        return block

    array = da.from_array(STACK, chunks=(1, -1, -1)).map_blocks(fail, dtype=np.uint8)
    with pytest.raises(RuntimeError, match="cursed"):
        imsave(array, tmp_path / name)
    assert sorted(tmp_path.iterdir()) == sorted(old)
    assert old[-1].read_bytes() == before[-1]
    if name == "stack.tif":
        np.testing.assert_array_equal(tifffile.imread(old[0]), STACK[::-1])


@pytest.mark.parametrize(
    ("name", "lazy"),
    only(2, [("{}.png", True), ("{}.png", False), ("{}.jpg", False), ("{}.jpg", True),
             ("stack.tif", False), ("stack.tif", True), ("{}.tif", False), ("{}.tif", True)]),
)  # fmt: skip
def test_disk_full(tmp_path, name, lazy):
    """RLIMIT_FSIZE stands for the disk: frame 3 is noise, whose file is larger than allowed."""
    stack = np.zeros((5, 200, 300), np.uint8)
    stack[3] = np.random.default_rng(0).integers(0, 256, (200, 300))
    small = np.full_like(stack, 7)
    limit = 50_000 if name in ("{}.png", "{}.jpg") else 59_000
    old = imsave(small, tmp_path / name)
    before = {path: path.read_bytes() for path in old}
    np.save(tmp_path / "stack.npy", stack)
    program = f"""
        import resource
        import numpy as np, dask, dask.array as da
        from ninepoint import imsave
        stack = np.load({str(tmp_path / "stack.npy")!r})
        if {lazy}:
            dask.config.set(scheduler="synchronous")
            stack = da.from_array(stack, chunks=(2, 100, -1))
        resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
        try:
            imsave(stack, {str(tmp_path / name)!r})
        except OSError as error:
            print(error)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        check=True,
        # Python keeps bytecode that it could not write whole.
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
    )
    assert "File too large" in done.stdout, done.stderr
    assert set(tmp_path.iterdir()) == {*old, tmp_path / "stack.npy"}
    if name in ("{}.png", "{}.jpg"):
        assert "frame 3 is not written; the files that are there are whole" in done.stdout
        assert old[3].read_bytes() == before[old[3]]
        found = imread(old).compute()
        assert all((a == b).all() or (a == 7).all() for a, b in zip(found, stack, strict=True))
    else:
        assert {path: path.read_bytes() for path in old} == before


def test_importing_the_package_imports_no_reader():
    program = (
        "import sys, ninepoint.io.images, ninepoint.io.frames; "
        "print([name for name in ('dask', 'PIL', 'tifffile', 'rich') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.stdout.strip() == "[]"


def test_a_missing_extra_is_named(tmp_path):
    """A module that is set to None cannot be imported: the way Python offers to forbid one."""
    program = f"""
        import sys
        sys.modules["PIL"] = None
        from ninepoint import imread
        try:
            imread({str(tmp_path)!r})
        except ImportError as error:
            print(error)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert "needs 'PIL', which cannot be imported" in done.stdout
    assert "pip install pillow" in done.stdout
