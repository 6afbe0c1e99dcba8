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


@pytest.mark.parametrize(
    ("array", "name", "error", "text"),
    [
        (
            STACK / 99,
            "{}.png",
            TypeError,
            "PNG cannot hold float64 images: scale and round it, and .astype('uint8' or 'uint16')"
            "; or save as TIFF (.tif), which holds float64",
        ),
        (
            STACK * np.nan,
            "{}.jpg",
            TypeError,
            "JPEG cannot hold float64 images: scale and round it, and .astype('uint8'); or save "
            "as TIFF (.tif), which holds float64",
        ),
        (
            STACK.astype(np.int8),
            "{}.png",
            TypeError,
            "PNG cannot hold int8 images: if the values fit, .astype('uint8' or 'uint16'); or "
            "save as TIFF (.tif), which holds int8",
        ),
        (
            STACK * 1j,
            "{}.png",
            TypeError,
            "PNG cannot hold complex128 images: take abs(array), scale and round it, and "
            ".astype('uint8' or 'uint16'); or save as TIFF (.tif), which holds complex128",
        ),
        (
            STACK.astype(object),
            "{}.tif",
            TypeError,
            "no image format holds object arrays: convert to numbers first, such as "
            "array.astype('float64') for a .tif",
        ),
        (
            np.zeros((2, 4, 5, 5), np.uint8),
            "{}.png",
            ValueError,
            "an image has 1 to 4 channels, and this array has 5 on its last axis. If that is an "
            "axis of the image, array.reshape(-1, 5, 5) is one stack, and .zarr and .npy hold all "
            "axes as they are. Save more channels as separate stacks, array[..., 0] and so on",
        ),
        (
            np.zeros((2, 4, 5, 4), np.uint8),
            "{}.jpg",
            ValueError,
            "JPEG cannot hold uint8 images of 4 channels: save as TIFF (.tif), or without alpha, "
            "array[..., :-1]",
        ),
        (
            np.zeros((70000, 2), np.uint8),
            "a.jpg",
            ValueError,
            "JPEG holds images of at most 65500 pixels a side, not 70000 x 2; save as TIFF (.tif)",
        ),
        (
            STACK[:0],
            "{}.png",
            ValueError,
            "imsave got an empty array, of shape (0, 4, 5)",
        ),
        (
            STACK[0, 0],
            "{}.png",
            ValueError,
            "imsave takes an image or a stack (frames, rows, columns[, channels]), not an array "
            "of 1 axes",
        ),
        (
            STACK,
            "a.png",
            ValueError,
            "'a.png' holds one image, and this array has 3 frames; number the files, "
            "'a{:04d}.png', or save one .tif",
        ),
        (
            STACK.tolist(),
            "{}.png",
            TypeError,
            "imsave takes a NumPy or Dask array, not list",
        ),
        (
            np.ma.masked_equal(STACK, 3),
            "{}.png",
            TypeError,
            "imsave would lose the mask of this array; use array.filled(value)",
        ),
        (
            STACK,
            "{}.webp",
            ValueError,
            "imsave cannot tell the format of '{}.webp': the name should end in .png, .jpg, "
            ".jpeg, .tif, .tiff",
        ),
    ],
)
def test_refused_before_anything_is_written(tmp_path, array, name, error, text):
    with pytest.raises(error) as caught:
        imsave(array, tmp_path / "out" / name)
    assert str(caught.value) == text
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("{}-{}.png", "should hold one {} for the number of the frame"),
        ("{name}.png", "should hold one {} for the number of the frame"),
        ("{0.real.__class__}.png", "should hold one {} for the number of the frame"),
        ("{:s}.png", "cannot hold a frame number"),
        ("{:/>4}.png", "only the name of the file can hold a {}"),
        ("{:.0e}.png", "cannot hold a frame number"),
        ("{:>1000000000}.png", "cannot hold a frame number"),
        ("{:01000000000d}.png", "cannot hold a frame number"),
        ("{:c}.png", "cannot hold a frame number"),
        ("{:x}.png", "cannot hold a frame number"),
        ("{:,}.png", "cannot hold a frame number"),
        ("{:{}}.png", "cannot hold a frame number"),
        ("{!r}.png", "cannot hold a frame number"),
        ("{0[0]}.png", "should hold one {} for the number of the frame"),
        ("{" * 10**6 + "}" * 10**6 + ".png", "a name of 2000004 characters is too long"),
        ("{}" * 10**5 + ".png", "a name of 200004 characters is too long"),
        ("é" * 200 + "{}.png", "is too long for a file"),
        ("a.ome.tif", "imsave writes no OME-TIFF"),
        ("{}.OME.TIFF", "imsave writes no OME-TIFF"),
        ("{:q}.png", "cannot hold a frame number"),
        ("{.png", "is not well formed"),
        ("{}/a.png", "only the name of the file can hold a {}"),
        ("a\0{}.png", "a path cannot hold a NUL character"),
        ("", "the pattern of imsave is empty"),
        ("s3://bucket/{}.png", "imsave writes local files, not to the URL"),
    ],
)
def test_patterns(pattern, text):
    with pytest.raises(ValueError, match=r".") as caught:
        imsave(np.zeros((20, 3, 3), np.uint8), pattern)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("name", "options", "text"),
    [
        ("{}.png", {"compression": 10}, "compression is a level from 0 to 9, not 10"),
        ("{}.jpg", {"compression": 3}, "JPEG has no compression level; JPEG has quality="),
        ("{}.png", {"quality": 90}, "PNG is written without loss and has no quality"),
        ("{}.jpg", {"quality": 0}, "quality is a number from 1 to 100, not 0"),
        ("a.tif", {"compression": 6}, "a stack in one TIFF is not compressed; write a file for"),
    ],
)
def test_options(tmp_path, name, options, text):
    with pytest.raises(ValueError, match=r".") as caught:
        imsave(STACK, tmp_path / name, **options)
    assert str(caught.value).startswith(text)


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
        ("**/*.png", "deep/new{}.png", True),
        ("../*/?.png", "7.png", True),
        ("link/*.png", "new{}.png", True),
        ("[0-3].png", "{:d}0.png", False),
        ("*.png", "new{}.tif", False),
        ("*.png", "deep/{}.png", False),
        ("0.png", "new{}.png", False),
        (["0.png", "1.png"], "new{}.png", True),
        (["0.png", "1.png"], "new{}.tif", False),
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
        ("a.mp4", "it is a video"),
        ("a.npy", r"ninepoint\.open"),
        ("a.nc", r"ninepoint\.open"),
        ("a.h5", r"ninepoint\.open"),
        ("a.zarr/", r"ninepoint\.open"),
        ("store/", r"ninepoint\.open"),
    ],
)
def test_other_files_are_pointed_elsewhere(tmp_path, name, words):
    path = tmp_path / name
    if name.endswith("/"):
        path.mkdir()
        (path / "zarr.json").write_text("{}")
    else:
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
