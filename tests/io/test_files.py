"""imread and imsave on real files: what goes in comes out, lazily and in order."""

import sys
import warnings

import dask
import dask.array as da
import numpy as np
import pytest
import tifffile
import xarray as xr
from PIL import Image

import ninepoint as npt
from compared import refuses
from ninepoint import ImageReadError, MetadataWarning, imread, imsave

GREY = {
    "png": "uint8 uint16",
    "tif": "uint8 int8 uint16 int16 uint32 int32 uint64 int64 float16 float32 float64 "
           "complex64 complex128",
}  # fmt: skip
MINISBLACK = {"photometric": "minisblack"}
OPENED: list[str] = []
sys.addaudithook(lambda event, args: OPENED.append(str(args[0])) if event == "open" else None)


def images(shape, dtype="uint8", seed=0):
    bits = np.random.default_rng(seed).integers(0, 256, size=shape)
    dtype = np.dtype(dtype)
    scale = 257 if dtype.itemsize > 1 and dtype.kind in "iu" else 1
    result = (bits - (128 if dtype.kind == "i" else 0)) * (scale if dtype != "int16" else 250)
    return (result * (1 + 2j) if dtype.kind == "c" else result).astype(dtype)


def equal(path, stack):
    found = imread(path)
    assert found.dtype == stack.dtype.newbyteorder("=")
    np.testing.assert_array_equal(found.compute(), stack)


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize(("suffix", "dtype", "channels"), [
    *((suffix, dtype, ()) for suffix, dtypes in GREY.items() for dtype in dtypes.split()),
    *(("png", "uint8", (channels,)) for channels in (1, 2, 3, 4)),
    *(("tif", dtype, (channels,)) for dtype in ("uint16", "float32") for channels in (1, 4)),
])  # fmt: skip
def test_frames_come_back_as_they_were(tmp_path, suffix, dtype, channels, lazy):
    stack = images((3, 5, 11, *channels), dtype)
    uneven = ((1, 2), (1, 4), (5, 4, 2), *((one,) for one in channels))
    array = da.from_array(stack, chunks=uneven) if lazy else stack
    expected = stack[..., 0] if channels == (1,) else stack
    paths = imsave(array, tmp_path / f"f{{}}.{suffix}", compression=6)
    assert paths == [tmp_path / f"f{n}.{suffix}" for n in range(3)]
    equal(tmp_path, expected)
    if suffix == "tif" and dtype in "uint16 float32 complex128":
        # A stack in one TIFF.
        path = tmp_path / "one" / "stack.tif"
        assert imsave(array, path) == [path]
        assert list(path.parent.iterdir()) == [path]
        equal(path, expected)
        np.testing.assert_array_equal(tifffile.imread(path), expected)


@pytest.mark.parametrize("shape", [(2, 3, 20, 7), (2, 1, 2, 9, 8), (2, 3, 20, 7, 3)])
def test_stacks_of_more_axes_keep_their_shape_in_one_tiff(tmp_path, shape):
    array = da.from_array(images(shape, "uint16"), chunks=(1, 2, 5, *shape[3:]))
    (path,) = imsave(array, tmp_path / "a.tif")
    found = npt.open(path)
    assert found.dtype == "uint16"
    np.testing.assert_array_equal(found, array)
    np.testing.assert_array_equal(tifffile.imread(path), array)


def test_names_for_frames_one_image_and_a_folder(tmp_path):
    names = [tmp_path / name for name in ("b.png", "a.tif", "c.PNG")]
    assert imsave(images((3, 4, 5)), names) == names
    equal(names, images((3, 4, 5)))
    assert imsave(images((1, 4, 5)), names[:1], overwrite=True) == names[:1]
    with pytest.raises(ValueError, match="there are 2 frames, and 3 names for their files"):
        imsave(images((2, 4, 5)), names, overwrite=True)
    grey, colour = images((5, 6)), images((5, 6, 3))
    assert imsave(grey, tmp_path / "grey.png") == [tmp_path / "grey.png"]
    equal(tmp_path / "grey.png", grey[None])
    for name in ("colour.png", "colour.tif"):
        imsave(da.from_array(colour, chunks=3), tmp_path / name)
        equal(str(tmp_path / name), colour[None])
    paths = imsave(images((2, 4, 4)), tmp_path / "new" / "deeper")
    assert paths == [tmp_path / "new" / "deeper" / name for name in ("0000.png", "0001.png")]
    assert imsave(images((2, 4, 4)), f"{tmp_path}/new/deeper/", overwrite=True) == paths
    imsave(xr.DataArray(images((2, 3, 4)), dims=("time", "y", "x")), tmp_path / "x{}.png")
    equal(tmp_path / "x*.png", images((2, 3, 4)))


@pytest.mark.parametrize("lazy", [False, True])
def test_jpeg_is_close_and_truths_are_black_and_white(tmp_path, lazy):
    def saved(array, name):
        options = {"quality": 100} if name.endswith(".jpg") else {}
        given = da.from_array(array, chunks=-1) if lazy else array
        imsave(given, tmp_path / name, overwrite=True, **options)
        return imread(tmp_path / name).compute().astype(int)[0]

    rows, columns = np.mgrid[:40, :50]
    grey = (rows + columns).astype(np.uint8)
    assert abs(saved(grey, "a.jpg") - grey).max() <= 3
    for channels in ((), (3,)):
        image = np.zeros((16, 16, *channels), bool)
        image[4:12, 4:12] = True
        assert abs(saved(image, "b.jpg") - 255 * image)[[0, 8]].max() <= 4
        for name in ("b.png", "b.tif"):
            assert (saved(image, name) == 255 * image).all()


@pytest.mark.parametrize("dtype", [">u2", ">f4"])
def test_foreign_byte_order_and_strides(tmp_path, dtype):
    stack = images((4, 6, 10), "uint16").astype(dtype)[::2, ::-1, ::2]
    imsave(stack, tmp_path / "{}.tif")
    imsave(stack, tmp_path / "stack" / "all.tif")
    tifffile.imwrite(tmp_path / "big.tiff", stack, byteorder=">", **MINISBLACK)
    for name in ("*.tif", "stack/*", "big.tiff"):
        equal(tmp_path / name, stack)
        assert imread(tmp_path / name).compute().dtype.isnative


def test_files_are_read_in_natural_order_and_lists_in_theirs(tmp_path):
    for number in (10, 9, 2, 1):
        imsave(np.full((3, 3), number, np.uint8), tmp_path / f"f{number}.png")
    imsave(np.full((3, 3), 5, np.uint8), tmp_path / "inner" / "f5.png")
    # What is no image is left out of a folder.
    (tmp_path / "notes.txt").write_text("no image")
    (tmp_path / ".hidden.png").write_text("no image")
    (tmp_path / "a.png").mkdir()
    chosen = [tmp_path / "f10.png", str(tmp_path / "f1.png"), tmp_path / "f10.png"]
    wanted = [
        (tmp_path, [1, 2, 9, 10]), (f"{tmp_path}/f?.png", [1, 2, 9]), (chosen, [10, 1, 10]),
        (f"{tmp_path}/**/f*.png", [1, 2, 9, 10, 5]),
    ]  # fmt: skip
    for source, numbers in wanted:
        assert imread(source)[:, 0, 0].compute().tolist() == numbers
    imsave(images((3, 4)), tmp_path / "upper" / "scan[1].PNG")
    for name in ("upper", "upper/*.PNG", "upper/scan[1].PNG"):
        assert imread(tmp_path / name).shape == (1, 3, 4)


def test_several_stacks_become_one(tmp_path):
    stack = images((11, 5, 6), "uint16")
    packed = {"compression": "zlib", "bigtiff": True}
    parts = [("s1", slice(0, 4), {}), ("s2", slice(4, 5), packed),
             ("s10", slice(5, 11), {"rowsperstrip": 2})]  # fmt: skip
    for name, part, options in parts:
        tifffile.imwrite(tmp_path / f"{name}.tif", stack[part], **MINISBLACK, **options)
    for chunks in (1, 3, 20, "auto"):
        np.testing.assert_array_equal(imread(tmp_path, chunks=chunks).compute(), stack)
    assert imread(tmp_path, chunks=3).chunks[0] == (3, 3, 3, 2)


def test_tiles_and_planes_of_tiffs(tmp_path):
    colour, image = images((5, 6, 3)), images((50, 70), "float32")
    planes = np.moveaxis(colour, -1, 0)
    given = [(colour, colour, {"photometric": "rgb"}),
             (planes, colour, {"photometric": "rgb", "planarconfig": "separate"}),
             (image, image, {"tile": (16, 32), "compression": "zlib"})]  # fmt: skip
    for data, wanted, options in given:
        tifffile.imwrite(tmp_path / "a.tif", data, **options)
        equal(tmp_path, wanted[None])


@pytest.mark.parametrize("byteorder", ["<", ">"])
def test_overviews_and_masks_are_no_frames(tmp_path, byteorder):
    stack = images((2, 64, 80))
    path = tmp_path / "cog.tif"
    with tifffile.TiffWriter(path, bigtiff=byteorder == "<", byteorder=byteorder) as file:
        for frame in stack:
            file.write(frame, tile=(16, 16), metadata=None)
            file.write(frame[::2, ::2], tile=(16, 16), subfiletype=1, metadata=None)
            file.write(frame > 9, subfiletype=4, metadata=None)
            file.write(frame[::2, ::2] > 9, subfiletype=5, metadata=None)
            # SubfileType, of the older kind.
            file.write(frame[::4, ::4], metadata=None, extratags=[(255, 3, 1, 2, True)])
    equal(path, stack)
    with tifffile.TiffWriter(path, byteorder=byteorder) as file:
        # In pages of their own level.
        file.write(stack, tile=(16, 16), subifds=1, metadata=None, **MINISBLACK)
        for frame in stack:
            file.write(frame[::2, ::2], tile=(16, 16), subfiletype=1, metadata=None)
    equal(path, stack)
    tifffile.imwrite(path, images((9, 9)), subfiletype=1, metadata=None)
    refuses(ImageReadError, "smaller copies and masks alone", imread, path)


@pytest.mark.parametrize(("name", "shape", "options", "words"), [
    ("a.ome.tif", (5, 2, 3, 8, 9), {"metadata": {"axes": "TZCYX", "PhysicalSizeX": 0.1}},
     ["OME-TIFF", "T=5, Z=2, C=3", "size of a pixel", "30 frames", "keeps the axes"]),
    ("a.tif", (5, 2, 3, 8, 9), {"imagej": True, "metadata": {"axes": "TZCYX"}},
     ["IMAGEJ-TIFF", "T=5, Z=2, C=3", "30 frames"]),
    ("a.tif", (4, 8, 9), {"imagej": True, "resolution": (5, 10),
                          "metadata": {"axes": "ZYX", "spacing": 2.0, "unit": "um"}},
     ["Z=4", "size of a pixel"]),
    ("a.tif", (5, 2, 8, 9), MINISBLACK, ["the axes Q=5, Q=2", "10 frames"]),
    ("a.tif", (5, 2, 8, 9, 3), {"photometric": "rgb"}, ["the axes Q=5, Q=2", "10 frames"]),
    # Nothing is said where nothing is dropped.
    ("a.tif", (4, 8, 9), MINISBLACK, []),
    ("a.tif", (8, 9), {"imagej": True}, []),
    ("a.tif", (4, 8, 9), {"imagej": True, "metadata": {"axes": "ZYX"}}, []),
    ("a.ome.tif", (4, 8, 9, 3), {"photometric": "rgb", "metadata": {"axes": "TYXS"}}, []),
])  # fmt: skip
def test_axes_and_sizes_that_are_dropped_are_named(tmp_path, name, shape, options, words):
    stack = images(shape)
    tifffile.imwrite(tmp_path / name, stack, **options)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        x = imread(tmp_path / name)
    assert [one.category for one in caught] == ([MetadataWarning] if words else [])
    for one in caught:
        assert [word for word in (name, *words) if word not in str(one.message)] == []
        assert one.filename == __file__
    np.testing.assert_array_equal(x.compute(), stack.reshape(x.shape))


@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_a_palette_becomes_its_colours(tmp_path, suffix):
    indices = images((5, 6)) % 3
    colours = np.array([[255, 0, 0], [0, 128, 0], [1, 2, 3]], np.uint8)
    picture = Image.new("P", (6, 5))
    picture.putpalette(colours.tobytes())
    picture.putdata(indices.ravel().tolist())
    picture.save(tmp_path / f"p.{suffix}")
    equal(tmp_path, colours[indices][None])
    if suffix == "png":
        picture.save(tmp_path / "p.png", transparency=1)
        alpha = np.where(indices == 1, 0, 255)[..., None].astype("uint8")
        equal(tmp_path, np.concatenate([colours[indices], alpha], -1)[None])


def test_nothing_is_decoded_at_open_and_each_file_is_opened_once(tmp_path):
    paths = imsave(images((9, 20, 20)), tmp_path / "{}.png")

    def opened():
        found = sorted(path for path in OPENED if path.startswith(str(tmp_path)))
        OPENED.clear()
        return found

    opened()
    frames = imread(tmp_path, chunks=2)
    # One header.
    assert opened() == [str(paths[0])]
    smooth = frames[1:] + frames[:-1].map_blocks(lambda block: block // 2)
    both = dask.compute(smooth, frames.sum(), frames[3:5])
    assert opened() == sorted(map(str, paths))
    assert both[0].shape == (8, 20, 20)
    frames[5].compute()
    assert opened() == sorted(map(str, paths[4:6]))


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
    imsave(images((4, 5), seed=1), path, overwrite=True)
    assert imread(path).name != first.name
    refuses(ImageReadError, r"frame 0 from .*a\.png: the file has changed since", first.compute)


def test_processes_and_a_cluster_read_and_write(tmp_path, dask_client):
    stack, told = images((7, 9, 8)), []
    imsave(stack, tmp_path / "in" / "{}.png")
    frames = imread(tmp_path / "in", chunks=2)
    imsave(255 - frames, tmp_path / "out/{}.png", progress=lambda *now: told.append(now))
    assert told[-1] == (7, 7)
    assert sorted(told) == told
    imsave(frames.rechunk((3, 4, 5)), tmp_path / "all.tif")
    with dask.config.set(scheduler="processes"):
        imsave(frames[:4], tmp_path / "own/{}.png")
    (tmp_path / "in" / "3.png").write_bytes(b"rubbish")
    with pytest.raises(ImageReadError, match=r"frame 3 from .*3\.png: the file has changed"):
        imsave(frames, tmp_path / "bad/{}.png")
    equal(tmp_path / "out", 255 - stack)
    equal(tmp_path / "all.tif", stack)
    equal(tmp_path / "own", stack[:4])


def test_resume_computes_only_what_is_missing(tmp_path):
    stack, asked, told = images((9, 5, 5)), [], []

    def watch(block, block_info=None):
        asked.append(block_info[0]["chunk-location"][0])
        return block

    array = da.from_array(stack, chunks=(2, -1, -1)).map_blocks(watch, dtype="uint8")
    pattern = tmp_path / "{}.png"
    paths = imsave(stack, pattern)
    old = paths[0].stat().st_ino
    for number in (3, 8):
        paths[number].unlink()
    assert imsave(array, pattern, resume=True, progress=lambda *now: told.append(now)) == paths
    assert sorted(asked) == [1, 4]
    assert told[-1] == (2, 2)
    assert paths[0].stat().st_ino == old
    assert imsave(array, pattern, resume=True) == paths
    assert len(asked) == 2
    paths[4].unlink()
    imsave(stack, pattern, resume=True)
    equal(tmp_path, stack)


def test_a_bar_can_be_forced_and_a_look_at_many_files_interrupted(tmp_path, capsys):
    imsave(images((3, 5, 5)), tmp_path / "{}.png", progress=True)
    assert "saving:" in capsys.readouterr().err
    imread(tmp_path, progress=True)
    assert "looking at files:" in capsys.readouterr().err
    imread(tmp_path)
    imsave(images((3, 5, 5)), tmp_path / "{}.png", overwrite=True)
    assert capsys.readouterr().err == ""
    path, told = imsave(images((4, 5)), tmp_path / "a.tif")[0], []
    imread([path] * 1000, progress=lambda *now: told.append(now))
    assert told == sorted(told)
    assert told[-1] == (1000, 1000)

    def stop(*_):
        raise KeyboardInterrupt

    refuses(KeyboardInterrupt, "", imread, [path] * 1000, progress=stop)
