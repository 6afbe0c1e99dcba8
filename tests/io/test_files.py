"""imread and imsave on real files: what goes in comes out, lazily and in order."""

from __future__ import annotations

import pickle
import sys
import warnings

import dask
import dask.array as da
import numpy as np
import pytest
import tifffile
from PIL import Image

from ninepoint import ImageReadError, MetadataWarning, imread, imsave

FORMAT_DTYPES = {
    "png": ["bool", "uint8", "uint16"],
    "tif": [
        *("bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"),
        *("float16", "float32", "float64", "complex64", "complex128"),
    ],
}
OPENED: list[str] = []
sys.addaudithook(lambda event, args: OPENED.append(str(args[0])) if event == "open" else None)


def images(shape, dtype="uint8", seed=0):
    bits = np.random.default_rng(seed).integers(0, 256, size=shape)
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return bits > 127
    scale = 257 if dtype.itemsize > 1 and dtype.kind in "iu" else 1
    result = (bits - (128 if dtype.kind == "i" else 0)) * (scale if dtype != "int16" else 250)
    return (result * (1 + 2j) if dtype.kind == "c" else result).astype(dtype)


@pytest.mark.parametrize(
    ("suffix", "dtype"),
    [(suffix, dtype) for suffix in FORMAT_DTYPES for dtype in FORMAT_DTYPES[suffix]],
)
@pytest.mark.parametrize("lazy", [False, True])
def test_grey_frames_come_back_as_they_were(tmp_path, suffix, dtype, lazy):
    stack = images((3, 5, 11), dtype)
    array = da.from_array(stack, chunks=(2, 3, 4)) if lazy else stack
    paths = imsave(array, tmp_path / f"f{{}}.{suffix}")
    assert paths == [tmp_path / f"f{n}.{suffix}" for n in range(3)]
    back = imread(tmp_path)
    assert back.dtype == stack.dtype
    np.testing.assert_array_equal(back.compute(), stack)


@pytest.mark.parametrize(
    ("suffix", "dtype", "channels"),
    [
        *(("png", "uint8", channels) for channels in (1, 2, 3, 4)),
        *(("tif", dtype, channels) for dtype in ("uint16", "float32") for channels in (2, 3, 4)),
    ],
)
def test_colour_frames_come_back_as_they_were(tmp_path, suffix, dtype, channels):
    stack = images((3, 6, 7, channels), dtype)
    imsave(stack, tmp_path / f"{{:03d}}.{suffix}", compression=6)
    expected = stack[..., 0] if channels == 1 else stack
    np.testing.assert_array_equal(imread(tmp_path / f"*.{suffix}").compute(), expected)


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize(
    ("dtype", "shape"),
    [
        *(((dtype), (5, 6, 11)) for dtype in ("bool", "uint8", "int16", "float32", "complex128")),
        ("uint8", (4, 6, 7, 3)),
        ("uint16", (4, 6, 7, 1)),
        ("float32", (4, 6, 7, 4)),
        ("uint8", (5, 4, 3, 1)),
    ],
)
def test_a_stack_in_one_tiff(tmp_path, dtype, shape, lazy):
    stack = images(shape, dtype)
    array = da.from_array(stack, chunks=(2, 3, *shape[2:])) if lazy else stack
    path = tmp_path / "stack.tif"
    assert imsave(array, path) == [path]
    assert list(tmp_path.iterdir()) == [path]
    expected = stack[..., 0] if shape[-1] == 1 else stack
    np.testing.assert_array_equal(imread(path).compute(), expected)
    np.testing.assert_array_equal(tifffile.imread(path), expected)


def test_jpeg_is_close(tmp_path):
    rows, columns = np.mgrid[:40, :50]
    stack = np.stack([rows + columns, 2 * rows]).astype(np.uint8)
    imsave(stack, tmp_path / "{}.jpg", quality=100)
    assert abs(imread(tmp_path).astype(int).compute() - stack).max() <= 3


def test_one_image(tmp_path):
    grey, colour = images((5, 6)), images((5, 6, 3))
    assert imsave(grey, tmp_path / "grey.png") == [tmp_path / "grey.png"]
    imsave(da.from_array(colour, chunks=3), tmp_path / "colour.png")
    np.testing.assert_array_equal(imread(tmp_path / "grey.png").compute(), grey[None])
    np.testing.assert_array_equal(imread(str(tmp_path / "colour.png")).compute(), colour[None])
    imsave(colour, tmp_path / "colour.tif")
    assert imread(tmp_path / "colour.tif").shape == (1, 5, 6, 3)


def test_a_folder_gets_numbered_pngs(tmp_path):
    paths = imsave(images((2, 4, 4)), tmp_path / "new" / "deeper")
    assert [path.name for path in paths] == ["0000.png", "0001.png"]
    assert all(path.parent == tmp_path / "new" / "deeper" for path in paths)
    assert imsave(images((2, 4, 4)), f"{tmp_path}/new/deeper/") == paths


@pytest.mark.parametrize("dtype", [">u2", ">f4"])
def test_foreign_byte_order_and_strides(tmp_path, dtype):
    stack = images((4, 6, 10), "uint16").astype(dtype)[::2, ::-1, ::2]
    imsave(stack, tmp_path / "{}.tif")
    imsave(stack, tmp_path / "stack" / "all.tif")
    np.testing.assert_array_equal(imread(tmp_path / "*.tif").compute(), stack)
    np.testing.assert_array_equal(imread(tmp_path / "stack/*").compute(), stack)
    tifffile.imwrite(tmp_path / "big.tiff", stack, byteorder=">", photometric="minisblack")
    back = imread(tmp_path / "big.tiff")
    assert back.dtype.isnative
    assert back.compute().dtype.isnative
    np.testing.assert_array_equal(back.compute(), stack)


def test_files_are_read_in_natural_order_and_lists_in_theirs(tmp_path):
    for number in (10, 9, 2, 1):
        imsave(np.full((3, 3), number, np.uint8), tmp_path / f"f{number}.png")
    assert imread(tmp_path)[:, 0, 0].compute().tolist() == [1, 2, 9, 10]
    assert imread(f"{tmp_path}/f?.png")[:, 0, 0].compute().tolist() == [1, 2, 9]
    chosen = [tmp_path / "f10.png", str(tmp_path / "f1.png"), tmp_path / "f10.png"]
    assert imread(chosen)[:, 0, 0].compute().tolist() == [10, 1, 10]
    imsave(np.full((3, 3), 5, np.uint8), tmp_path / "inner" / "f5.png")
    assert imread(f"{tmp_path}/**/*.png")[:, 0, 0].compute().tolist() == [1, 2, 9, 10, 5]


def test_a_folder_is_read_without_what_is_no_image(tmp_path):
    imsave(images((2, 3, 3)), tmp_path / "{}.PNG")
    (tmp_path / "notes.txt").write_text("no image")
    (tmp_path / ".hidden.png").write_text("no image")
    (tmp_path / "folder.png").mkdir()
    assert imread(tmp_path).shape == (2, 3, 3)
    assert imread(f"{tmp_path}/*.PNG").shape == (2, 3, 3)


def test_a_name_with_brackets_is_a_file(tmp_path):
    path = tmp_path / "scan[1].png"
    imsave(images((3, 4)), path)
    assert imread(path).shape == (1, 3, 4)


def test_several_stacks_become_one(tmp_path):
    stack = images((11, 5, 6), "uint16")
    tifffile.imwrite(tmp_path / "s1.tif", stack[:4], photometric="minisblack")
    tifffile.imwrite(
        tmp_path / "s2.tif", stack[4:5], compression="zlib", photometric="minisblack", bigtiff=True
    )
    tifffile.imwrite(tmp_path / "s10.tif", stack[5:], rowsperstrip=2, photometric="minisblack")
    for chunks in (1, 3, 20, "auto"):
        back = imread(tmp_path, chunks=chunks)
        assert back.shape == stack.shape
        np.testing.assert_array_equal(back.compute(), stack)
    assert imread(tmp_path, chunks=3).chunks[0] == (3, 3, 3, 2)


@pytest.mark.parametrize("planarconfig", ["contig", "separate"])
def test_tiff_channels_come_last(tmp_path, planarconfig):
    colour = images((5, 6, 3))
    data = colour if planarconfig == "contig" else np.moveaxis(colour, -1, 0)
    tifffile.imwrite(tmp_path / "c.tif", data, photometric="rgb", planarconfig=planarconfig)
    np.testing.assert_array_equal(imread(tmp_path).compute()[0], colour)


def test_tiled_tiff(tmp_path):
    image = images((50, 70), "float32")
    tifffile.imwrite(tmp_path / "t.tif", image, tile=(16, 32), compression="zlib")
    np.testing.assert_array_equal(imread(tmp_path).compute()[0], image)


@pytest.mark.parametrize("bigtiff", [False, True])
@pytest.mark.parametrize("byteorder", ["<", ">"])
def test_overviews_and_masks_are_no_frames(tmp_path, bigtiff, byteorder):
    stack = images((2, 64, 80))
    path = tmp_path / "cog.tif"
    with tifffile.TiffWriter(path, bigtiff=bigtiff, byteorder=byteorder) as file:
        for frame in stack:
            file.write(frame, tile=(16, 16), metadata=None)
            file.write(frame[::2, ::2], tile=(16, 16), subfiletype=1, metadata=None)
            file.write(frame > 9, subfiletype=4, metadata=None)
            file.write(frame[::2, ::2] > 9, subfiletype=5, metadata=None)
            # SubfileType, of the older kind.
            file.write(frame[::4, ::4], metadata=None, extratags=[(255, 3, 1, 2, True)])
    np.testing.assert_array_equal(imread(path).compute(), stack)


def test_overviews_in_pages_of_their_own_level(tmp_path):
    stack = images((3, 64, 80))
    path = tmp_path / "pyramid.tif"
    with tifffile.TiffWriter(path) as file:
        kind = {"photometric": "minisblack", "metadata": None}
        file.write(stack, tile=(16, 16), subifds=1, **kind)
        for frame in stack:
            file.write(frame[::2, ::2], tile=(16, 16), subfiletype=1, metadata=None)
    np.testing.assert_array_equal(imread(path).compute(), stack)


def test_a_file_of_copies_alone_is_an_error(tmp_path):
    tifffile.imwrite(tmp_path / "a.tif", images((9, 9)), subfiletype=1, metadata=None)
    with pytest.raises(ImageReadError, match="smaller copies and masks alone"):
        imread(tmp_path / "a.tif")


@pytest.mark.parametrize(
    ("name", "shape", "options", "words"),
    [
        (
            "a.ome.tif",
            (5, 2, 3, 8, 9),
            {"metadata": {"axes": "TZCYX", "PhysicalSizeX": 0.1}},
            [
                "OME-TIFF",
                "T=5, Z=2, C=3",
                "size of a pixel",
                "30 frames",
                "x.reshape(5, 2, 3, *x.s",
            ],
        ),
        ("a.ome.tif", (5, 3, 8, 9), {"metadata": {"axes": "TCYX"}}, ["T=5, C=3", "reshape(5, 3,"]),
        (
            "a.tif",
            (5, 2, 3, 8, 9),
            {"imagej": True, "metadata": {"axes": "TZCYX"}},
            ["IMAGEJ-TIFF", "T=5, Z=2, C=3", "30 frames"],
        ),
        (
            "a.tif",
            (4, 8, 9),
            {
                "imagej": True,
                "metadata": {"axes": "ZYX", "spacing": 2.0, "unit": "um"},
                "resolution": (5, 10),
            },
            ["Z=4", "size of a pixel"],
        ),
        ("a.tif", (5, 2, 8, 9), {"photometric": "minisblack"}, ["the axes Q=5, Q=2", "10 frames"]),
        ("a.tif", (5, 2, 8, 9, 3), {"photometric": "rgb"}, ["the axes Q=5, Q=2", "10 frames"]),
    ],
)
def test_axes_and_sizes_that_are_dropped_are_named(tmp_path, name, shape, options, words):
    stack = images(shape)
    tifffile.imwrite(tmp_path / name, stack, **options)
    with pytest.warns(MetadataWarning) as caught:
        x = imread(tmp_path / name)
    (said,) = [str(one.message) for one in caught]
    assert [word for word in (name, *words) if word not in said] == []
    assert caught[0].filename == __file__
    np.testing.assert_array_equal(x.compute(), stack.reshape(x.shape))


@pytest.mark.parametrize(
    ("name", "shape", "options"),
    [
        ("a.tif", (4, 8, 9), {"photometric": "minisblack"}),
        ("a.tif", (8, 9), {"imagej": True}),
        ("a.tif", (4, 8, 9), {"imagej": True, "metadata": {"axes": "ZYX"}}),
        ("a.ome.tif", (4, 8, 9), {"metadata": {"axes": "TYX"}}),
        ("a.ome.tif", (4, 8, 9, 3), {"photometric": "rgb", "metadata": {"axes": "TYXS"}}),
        ("a.tif", (8, 9, 3), {"photometric": "rgb"}),
    ],
)
def test_nothing_is_said_where_nothing_is_dropped(tmp_path, name, shape, options):
    stack = images(shape)
    tifffile.imwrite(tmp_path / name, stack, **options)
    x = imread(tmp_path / name)
    np.testing.assert_array_equal(x.compute(), stack.reshape(x.shape))


@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_a_palette_becomes_its_colours(tmp_path, suffix):
    indices = images((5, 6)) % 3
    colours = np.array([[255, 0, 0], [0, 128, 0], [1, 2, 3]], np.uint8)
    picture = Image.new("P", (6, 5))
    picture.putpalette(colours.tobytes())
    picture.putdata(indices.ravel().tolist())
    picture.save(tmp_path / f"p.{suffix}")
    np.testing.assert_array_equal(imread(tmp_path).compute()[0], colours[indices])


def test_a_transparent_palette_becomes_rgba(tmp_path):
    picture = Image.new("P", (4, 3), 1)
    picture.putpalette([9, 8, 7, 200, 100, 50])
    picture.save(tmp_path / "p.png", transparency=1)
    back = imread(tmp_path)
    assert back.shape == (1, 3, 4, 4)
    assert back.compute()[0, 0, 0].tolist() == [200, 100, 50, 0]


def test_nothing_is_decoded_at_open_and_each_file_is_opened_once(tmp_path):
    paths = imsave(images((9, 20, 20)), tmp_path / "{}.png")
    OPENED.clear()
    frames = imread(tmp_path, chunks=2)
    opened = [path for path in OPENED if path.startswith(str(tmp_path))]
    assert opened == [str(paths[0])]  # one header

    OPENED.clear()
    smooth = frames[1:] + frames[:-1].map_blocks(lambda block: block // 2)
    both = dask.compute(smooth, frames.sum(), frames[3:5])
    opened = [path for path in OPENED if path.startswith(str(tmp_path))]
    assert sorted(opened) == sorted(map(str, paths))
    assert both[0].shape == (8, 20, 20)

    OPENED.clear()
    frames[5].compute()
    opened = [path for path in OPENED if path.startswith(str(tmp_path))]
    assert sorted(opened) == sorted(map(str, paths[4:6]))


def test_small_frames_share_tasks_and_large_ones_do_not(tmp_path):
    path = imsave(np.zeros((4, 4), np.uint8), tmp_path / "a.png")[0]
    many = imread([path] * 6400)
    assert many.chunks[0] == (100,) * 64
    assert len(many.dask) == 64
    large = imsave(np.zeros((3000, 3000), np.uint16), tmp_path / "b.png")[0]
    assert imread([large] * 200).chunks[0] == (1,) * 200


def test_the_name_follows_the_contents(tmp_path):
    path = imsave(images((4, 5)), tmp_path / "a.png")[0]
    first, again = imread(path), imread(path)
    assert first.name == again.name
    imsave(images((4, 5), seed=1), path)
    assert imread(path).name != first.name
    with pytest.raises(ImageReadError, match=r"frame 0 from .*a\.png: the file has changed since"):
        first.compute()


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_schedulers(tmp_path, scheduler):
    stack = images((7, 9, 8))
    imsave(stack, tmp_path / "in" / "{}.png")
    told = []
    with dask.config.set(scheduler=scheduler):
        frames = imread(tmp_path / "in", chunks=2)
        imsave(255 - frames, tmp_path / "out/{}.png", progress=lambda *now: told.append(now))
        np.testing.assert_array_equal(imread(tmp_path / "out").compute(), 255 - stack)
    assert told[-1] == (7, 7)
    assert sorted(told) == told


def test_distributed(tmp_path, dask_client):
    stack = images((7, 9, 8))
    imsave(stack, tmp_path / "in" / "{}.png")
    told = []
    frames = imread(tmp_path / "in", chunks=2)
    imsave(255 - frames, tmp_path / "out/{}.png", progress=lambda *now: told.append(now))
    imsave(frames.rechunk((3, 4, 5)), tmp_path / "all.tif")
    assert told[-1] == (7, 7)
    (tmp_path / "in" / "3.png").write_bytes(b"rubbish")
    with pytest.raises(ImageReadError, match=r"frame 3 from .*3\.png: the file has changed"):
        imsave(frames, tmp_path / "bad/{}.png")
    np.testing.assert_array_equal(imread(tmp_path / "out").compute(), 255 - stack)
    np.testing.assert_array_equal(imread(tmp_path / "all.tif").compute(), stack)


def test_resume_computes_only_what_is_missing(tmp_path):
    stack = images((9, 5, 5))
    asked = []

    def watch(block, block_info=None):
        asked.append(block_info[0]["chunk-location"][0])
        return block

    array = da.from_array(stack, chunks=(2, -1, -1)).map_blocks(watch, dtype="uint8")
    paths = imsave(stack, tmp_path / "{}.png")
    old = paths[0].stat().st_ino
    for number in (3, 8):
        paths[number].unlink()
    told = []
    found = imsave(array, tmp_path / "{}.png", resume=True, progress=lambda *now: told.append(now))
    assert found == paths
    assert sorted(asked) == [1, 4]
    assert told[-1] == (2, 2)
    assert paths[0].stat().st_ino == old
    np.testing.assert_array_equal(imread(tmp_path).compute(), stack)
    assert imsave(array, tmp_path / "{}.png", resume=True) == paths
    assert len(asked) == 2
    paths[4].unlink()
    imsave(stack, tmp_path / "{}.png", resume=True)
    np.testing.assert_array_equal(imread(tmp_path).compute(), stack)


def test_overwrite_false_writes_nothing(tmp_path):
    imsave(images((1, 5, 5)), tmp_path / "{}.png")
    with pytest.raises(FileExistsError, match=r"0\.png' exists, and overwrite is false"):
        imsave(images((3, 5, 5)), tmp_path / "{}.png", overwrite=False)
    assert len(list(tmp_path.iterdir())) == 1


def test_uneven_and_deep_chunks(tmp_path):
    stack = images((9, 6, 7))
    for chunks in [((1, 3, 5), (6,), (7,)), ((9,), (1, 5), (3, 4)), ((4, 5), (6,), (2, 5))]:
        imsave(da.from_array(stack, chunks=chunks), tmp_path / "{}.png")
        np.testing.assert_array_equal(imread(tmp_path).compute(), stack)


def test_xarray(tmp_path):
    xarray = pytest.importorskip("xarray")
    stack = images((2, 3, 4))
    imsave(xarray.DataArray(stack, dims=("time", "y", "x")), tmp_path / "{}.png")
    np.testing.assert_array_equal(imread(tmp_path).compute(), stack)


def test_the_error_travels_to_another_process():
    error = pickle.loads(pickle.dumps(ImageReadError("a.tif", 7, "it is empty", 2)))
    assert (error.path, error.frame, error.reason, error.page) == ("a.tif", 7, "it is empty", 2)
    assert str(error) == "cannot read frame 7 from a.tif, page 2: it is empty"
    assert isinstance(error, OSError)


def test_a_bar_can_be_forced(tmp_path, capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        imsave(images((3, 5, 5)), tmp_path / "{}.png", progress=True)
    assert "3/3" in capsys.readouterr().err
    imsave(images((3, 5, 5)), tmp_path / "{}.png")
    assert capsys.readouterr().err == ""
