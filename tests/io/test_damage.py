"""Damaged, hostile and unequal files end in one error that names them; what imsave refuses."""

import json
import os
import pickle
import resource
import shutil
import struct
import sys
import zlib
from contextlib import contextmanager
from importlib.util import find_spec

import dask
import dask.array as da
import numpy as np
import pytest
import tifffile
import xarray as xr
import zarr
from PIL import Image

import ninepoint as npt
from compared import only, refuses
from ninepoint import ImageReadError, imread, imsave

X = np.random.default_rng(1).integers(0, 50, (40, 48)).astype("float32")


def plain(path, **options):
    zarr.create_array(store=str(path), data=X, chunks=(10, 12), **options)


def npy_header(path):
    # Of version 2, and longer.
    with open(path, "wb") as file:
        np.lib.format.write_array(file, X, version=(2, 0))


def labelled(path):
    xr.DataArray(X, dims=("y", "x"), name="t").to_dataset().to_zarr(path, zarr_format=2)


def ome(path):
    group = zarr.create_group(store=str(path), zarr_format=2)
    group.create_array("0", data=X, chunks=(20, 24))
    axes = [{"name": name, "type": "space", "unit": "micrometer"} for name in "yx"]
    transforms = [{"type": "scale", "scale": [0.5, 0.5]}]
    datasets = [{"path": "0", "coordinateTransformations": transforms}]
    group.attrs["multiscales"] = [{"version": "0.4", "axes": axes, "datasets": datasets}]


def netcdf(path, engine="h5netcdf"):
    xr.DataArray(X, dims=("y", "x"), name="t").to_netcdf(path, engine=engine)


def tif(path, **options):
    options = options or {"compression": "zlib", "rowsperstrip": 7}
    tifffile.imwrite(path, X.astype("uint8"), **options)


KINDS = {
    "a.npy": lambda path: np.save(path, X),
    "b.npy": npy_header,
    "a.zarr": plain,
    "old.zarr": lambda path: plain(path, zarr_format=2),
    "shards.zarr": lambda path: plain(path, shards=(20, 24)),
    "names.zarr": labelled,
    "ome.zarr": ome,
    "a.nc": netcdf,
    "old.nc": lambda path: netcdf(path, "scipy"),
    "a.tif": tif,
    "tiled.tif": lambda path: tif(path, tile=(16, 16)),
    "a.png": lambda path: npt.imsave(X.astype("uint8"), path),
    "a.jpg": lambda path: npt.imsave(X.astype("uint8"), path),
}


def files_of(path):
    if path.is_file():
        return [path]
    found = [one for one in sorted(path.rglob("*")) if one.is_file()]
    # What describes it is as often damaged as all chunks together.
    told = [one for one in found if one.name in ("zarr.json", ".zarray", ".zattrs", ".zgroup")]
    return found + told * (1 + len(found) // len(told))


def damaged(whole, rng):
    how = rng.integers(4)
    if how == 0:
        return whole[: rng.integers(len(whole))]
    data = bytearray(whole)
    least = min(len(data), 200) if how < 3 else len(data)
    for at in rng.integers(0, least, 1 + how):
        data[at] = rng.choice([0, 32, 34, 44, 123, 255, rng.integers(256)])
    return bytes(data)


@pytest.mark.parametrize("turns", only(1, [range(15), range(15, 300)]), ids=["few", "many"])
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.filterwarnings("ignore")
def test_damage_of_any_kind_ends_in_one_error(tmp_path, name, turns):
    path = tmp_path / name
    KINDS[name](path)
    files, wrong, wanted = files_of(path), [], npt.open(path).compute()
    for turn in turns:
        rng = np.random.default_rng((5, turn))
        file = files[rng.integers(len(files))]
        whole = file.read_bytes()
        data = damaged(whole, rng)
        file.write_bytes(data)
        try:
            found = npt.open(path)
            if found.size < 10**6:
                found = found.compute(scheduler="sync")
                # What is cut short gives no numbers of its own; but the library of Blosc takes
                # what lies in memory behind a chunk for the rest of it, and mostly notices.
                is_short = len(data) < len(whole) and (name, file.name) != ("names.zarr", "0.0")
                if is_short and not np.array_equal(found, wanted):
                    wrong.append((turn, file.name, "other numbers"))
        except (ValueError, OSError) as error:
            if str(path) not in str(error) or len(str(error)) > 1000 + len(str(path)):
                wrong.append((turn, file.name, repr(error)))
            pickle.loads(pickle.dumps(error))
        except Exception as error:
            wrong.append((turn, file.name, repr(error)))
        file.write_bytes(whole)
    assert not wrong
    assert npt.open(path).shape[-2:] == X.shape


@pytest.mark.parametrize(("name", "chunk"), [("a.zarr", "c/2/3"), ("old.zarr", "2.3")])
def test_the_elements_that_are_damaged_are_named(tmp_path, name, chunk):
    path = tmp_path / name
    KINDS[name](path)
    (path / chunk).write_bytes(b"no chunk")
    opened = npt.open(path, chunks=(20, 48))
    np.testing.assert_array_equal(opened[:20].compute(), X[:20])
    with pytest.raises(OSError, match=r", at the elements \[20:40, 0:48\]") as caught:
        opened[20:].compute()
    assert str(path) in str(caught.value)
    assert caught.value.__cause__ is not None


def test_descriptions_that_make_no_sense_and_numbers_by_the_hundred(tmp_path):
    path = tmp_path / "ome.zarr"
    ome(path)
    attrs = path / ".zattrs"
    whole = json.loads(attrs.read_text())
    for change in (
        lambda one: one["datasets"][0].pop("path"),
        lambda one: one["datasets"][0].update(path="1"),
        lambda one: one["datasets"][0].update(coordinateTransformations=[{"scale": "x"}]),
        lambda one: one.update(axes=[{}, {}]),
        lambda one: one.update(datasets=3),
    ):
        told = json.loads(json.dumps(whole))
        change(told["multiscales"][0])
        attrs.write_text(json.dumps(told))
        refuses((ValueError, OSError), r"ome\.zarr", npt.open, path)
    attrs.write_text("{")
    refuses(ValueError, r"ome.zarr.* cannot be opened", npt.open, path)
    # Of a tag with many values in the place of one the reason lists all.
    path = tmp_path / "a.tif"
    tif(path)
    data = bytearray(path.read_bytes())
    compression = bytes([3, 1, 3, 0, 1, 0, 0, 0])
    data[data.index(compression) + 4] = 250
    path.write_bytes(data)
    with pytest.raises(
        npt.ImageReadError, match=r"cannot read frame 0 from .*a\.tif.* \.\.\."
    ) as caught:
        npt.open(path).compute(scheduler="sync")
    assert len(str(caught.value)) < 500 + len(str(path))


NOISE = np.random.default_rng(1).integers(0, 256, (40, 64), np.uint8)


def image(path):
    Image.fromarray(NOISE).save(path)


def png(*header, pixels=b""):
    """A PNG whose header says this."""
    parts = [(b"IHDR", struct.pack(">IIBBBBB", *header)), (b"IDAT", zlib.compress(pixels)),
             (b"IEND", b"")]  # fmt: skip
    chunks = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def rgb(rows, columns):
    return png(columns, rows, 8, 2, 0, 0, 0)


def tiny_tiff(entries, following=0, tags=None):
    """Write a TIFF whose page is at byte 8; `entries` are (tag, type, count, value)."""
    body = b"".join(struct.pack("<HHII", *entry) for entry in entries)
    count = struct.pack("<H", len(entries) if tags is None else tags)
    return struct.pack("<2sHI", b"II", 42, 8) + count + body + struct.pack("<I", following)


def page_entries(rows, columns, start=8, stored=100, bits=8):
    values = {256: columns, 257: rows, 258: bits, 259: 1, 262: 1, 273: start, 277: 1, 278: rows}
    return [(tag, 4, 1, value) for tag, value in values.items()] + [(279, 4, 1, stored)]


def test_pixels_that_are_damaged(tmp_path):
    path = tmp_path / "a.png"
    image(path)
    data = bytearray(path.read_bytes())
    data[-14] ^= 1  # inside the checksum of the pixels, which Pillow's load() does not look at
    path.write_bytes(data)
    assert Image.open(path).load() is not None
    refuses(ImageReadError, r"bad header checksum in b'IDAT'", imread(path).compute)
    path = tmp_path / "a.jpg"
    image(path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    refuses(ImageReadError, r"frame 0 from .*a\.jpg: image file is tr", imread(path).compute)


ELSEWHERE = (
    "it is no PNG, JPEG or TIFF image; ninepoint.open(path) reads .npy, .nc, .h5 and .zarr, and "
    "imageio.v3.imread(path) other images and videos"
)
MANY = (
    "pixels, more than max_pixels=268435456; if you trust the file, raise max_pixels or pass "
    "max_pixels=None"
)


@pytest.mark.parametrize(("name", "data", "reason"), [
    ("a.png", b"", "it is empty"),
    ("a.tif", b"", "it is no TIFF: it begins with b''"),
    ("a.png", b"This is text, not an image.", ELSEWHERE),
    ("a.tif", b"This is text, not an image.", "it is no TIFF: it begins with b'This'"),
    ("a.unknown", b"This is text, not an image.", ELSEWHERE),
    ("a.tif", b"II*\0\0\0\0\0", "it holds no page, or smaller copies and masks alone"),
    ("a.tif", b"II*\0\x08\0\0\0", "it is truncated: there is no page 0, as it says"),
    ("a.tif", tiny_tiff(page_entries(4, 5), 8), "its chain of pages turns back after page 0"),
    ("a.tif", tiny_tiff([], 0, tags=60000), "its page 0 claims to have 60000 tags"),
    ("a.tif", tiny_tiff(page_entries(5, 0)), "it claims to be 5 x 0 pixels"),
    ("a.tif", tiny_tiff(page_entries(4, 5, bits=40)),
     "its numbers of 40 bits have no NumPy dtype"),
    ("a.tif", tiny_tiff(page_entries(200000, 200000)), f"it claims 200000 x 200000 {MANY}"),
    ("a.png", rgb(60000, 60000),
     "it claims 60000 x 60000 x 3 uint8 pixels, which its 65 bytes cannot hold"),
])  # fmt: skip
def test_refused_when_opened(tmp_path, name, data, reason):
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(ImageReadError) as caught:
        imread(path)
    assert str(caught.value) == f"cannot read frame 0 from {path}: {reason}"


def test_max_pixels(tmp_path):
    """Without a limit claims are held against the file, and later frames to the first one."""
    path = tmp_path / "0.png"
    path.write_bytes(rgb(60000, 60000))
    refuses(ImageReadError, "which its 65 bytes cannot hold", imread, path, max_pixels=None)
    with pytest.raises(ValueError, match="max_pixels holds 0; give at least 1"):
        imread(path, max_pixels=0)
    # Many pixels of nothing.
    for name in ("0.png", "1.png"):
        Image.new("L", (3000, 2000)).save(tmp_path / name)
    assert imread(path).shape == (1, 2000, 3000)
    refuses(ImageReadError, "more than max_pixels=1000000;", imread, path, max_pixels=10**6)
    imsave(np.zeros((5, 5), np.uint8), path, overwrite=True)
    frames = imread(tmp_path, max_pixels=100)
    refuses(ImageReadError, r"frame 1 .*1\.png: it is 2000 x 3000 uint8, but", frames.compute)


@pytest.mark.parametrize(("start", "stored", "reason"), [
    (0, 20, "its strip or tile 0 is missing"),
    (8, 0, "its strip or tile 0 is missing"),
    (8, 20, "it claims 2500 bytes of pixels, which its 20 cannot hold"),
    (8, 2500, "the file is truncated: strip or tile 0 ends at byte 2508 of 122"),
    (10**9, 2500, "the file is truncated: strip or tile 0 ends at byte 1000002500 of 122"),
])  # fmt: skip
def test_strips_that_are_not_there(tmp_path, start, stored, reason):
    path = tmp_path / "a.tif"
    path.write_bytes(tiny_tiff(page_entries(50, 50, start, stored)))
    frames = imread(path)
    with pytest.raises(ImageReadError) as caught:
        frames.compute()
    assert str(caught.value) == f"cannot read frame 0 from {path}: {reason}"


@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_an_odd_file_is_named(tmp_path, suffix):
    imsave(np.zeros((12, 4, 5), np.uint8), tmp_path / f"{{}}.{suffix}")
    path = tmp_path / f"10.{suffix}"
    odd = {"4 x 6 uint8": (4, 6), "4 x 5 uint16": (4, 5), "4 x 5 x 3 uint8": (4, 5, 3)}
    for found, shape in odd.items():
        imsave(np.zeros(shape, found.split()[-1]), path, overwrite=True)
        frames = imread(tmp_path, chunks=5)
        frames[:10].compute()
        with pytest.raises(ImageReadError) as caught:
            frames.compute()
        assert str(caught.value) == (
            f"cannot read frame 10 from {path}: it is {found}, but the first frame is 4 x 5 uint8"
        )


def test_a_damaged_file_among_several_has_the_number_of_its_frame(tmp_path):
    for number in range(40):
        imsave(np.zeros((1 + (number == 3), 4, 5), np.uint8), tmp_path / f"{number}.tif")
    (tmp_path / "39.tif").write_bytes(b"II*\0\x08\0\0\0")
    refuses(ImageReadError, r"cannot read frame 40 from .*39\.tif: it is trunc", imread, tmp_path)


def test_an_odd_page_is_named(tmp_path):
    with tifffile.TiffWriter(tmp_path / "s.tif") as writer:
        for rows in (4, 4, 5):
            writer.write(np.zeros((rows, 5), np.uint8), photometric="minisblack")
    imsave(np.zeros((2, 4, 5), np.uint8), tmp_path / "a{}.tif")
    frames = imread(tmp_path, chunks=2)
    words = r"frame 4 from .*s\.tif, page 2: it is 5 x 5 uint8"
    with pytest.raises(OSError, match=words) as caught:
        frames.compute()
    error = pickle.loads(pickle.dumps(caught.value))
    assert (type(error), str(error)) == (ImageReadError, str(caught.value))
    assert (error.frame, error.page, error.path) == (4, 2, caught.value.path)


def test_16_bit_colour_png_is_whole_or_names_what_it_needs(tmp_path):
    colour = np.random.default_rng(0).integers(0, 2**16, (9, 11, 3)).astype(np.uint16)
    path = tmp_path / "a.png"
    if find_spec("imagecodecs"):
        imsave(colour, path)
        np.testing.assert_array_equal(imread(path).compute()[0], colour)
        return
    refuses(ImportError, "which TIFF holds too, needs 'imagecodecs'", imsave, colour, path)
    rows = b"".join(b"\0" + row.tobytes() for row in colour.astype(">u2"))
    path.write_bytes(png(11, 9, 16, 2, 0, 0, 0, pixels=rows))
    refuses(ImportError, "pip install imagecodecs", imread, path)


def test_images_of_other_kinds(tmp_path):
    frames = [Image.new("L", (4, 4), value) for value in (0, 99)]
    frames[0].save(tmp_path / "animated.png", save_all=True, append_images=frames[1:])
    Image.new("CMYK", (4, 4)).save(tmp_path / "cmyk.jpg")
    imsave(np.stack([NOISE] * 4), tmp_path / "a.tif")
    shutil.move(tmp_path / "a.tif", tmp_path / "tiff.png")
    for name, words in {
        "animated.png": "it is an animated PNG; save its frames as",
        "cmyk.jpg": "its colours are CMYK; convert it to grey or RGB",
        "tiff.png": "it is a TIFF under another name; rename",
    }.items():
        refuses(ImageReadError, words, imread, tmp_path / name)
    shutil.move(tmp_path / "tiff.png", tmp_path / "a.scan")
    assert imread(tmp_path / "a.scan").shape == (4, 40, 64)


def test_what_is_no_file(tmp_path):
    """Other such sources are on the page of messages about files."""
    (tmp_path / "empty").mkdir()
    os.mkfifo(tmp_path / "pipe.png")
    for given, error, words in (
        (tmp_path / "empty", FileNotFoundError, r"holds no image \(\.png, \.jpg, \.jpeg, \.tif"),
        ([tmp_path / "empty"], IsADirectoryError, "empty' is a folder, not an image"),
        (tmp_path / "pipe.png", ImageReadError, "it is a pipe or a device, not a file"),
    ):
        refuses(error, words, imread, given)


def test_chunks_of_no_frames_and_a_file_that_goes_missing(tmp_path):
    paths = imsave(np.zeros((3, 4, 5), np.uint8), tmp_path / "{}.png")
    with pytest.raises(ValueError, match="chunks holds 0; give at least 1"):
        imread(tmp_path, chunks=0)
    frames = imread(tmp_path)
    paths[1].unlink()
    refuses(FileNotFoundError, r"1\.png", frames.compute)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_forbidden(tmp_path):
    image(tmp_path / "a.png")
    (tmp_path / "a.png").chmod(0)
    refuses(PermissionError, "", imread, tmp_path)


STACK = np.arange(3 * 4 * 5, dtype=np.uint8).reshape(3, 4, 5)


# What else is refused is on the page of messages about files.
@pytest.mark.parametrize("pattern", ["{0.real.__class__}.png", "{:>1000000000}.png", "{:{}}.png",
                                     "{" * 10**6 + "}" * 10**6 + ".png", "{}" * 10**5 + ".png"],
                         ids=range(5))  # fmt: skip
def test_hostile_patterns(pattern):
    words = "should hold one {}|only the name of the file|too long"
    refuses(ValueError, words, imsave, np.zeros((20, 3, 3), np.uint8), pattern)


def lying():
    return da.from_array(STACK).map_blocks(lambda block: block / 2, dtype=np.uint8)


def unknown():
    array = da.from_array(STACK, chunks=1)
    return array[array[:, 0, 0] > 3]


@pytest.mark.parametrize(("array", "error", "words"), [
    (unknown, ValueError, r"unknown sizes; call array.compute_chunk_sizes\(\)"),
    (lying, TypeError, r"a chunk of the Dask array is \(1, 4, 5\) float64, but"),
])  # fmt: skip
def test_nothing_is_written_of_what_is_refused(tmp_path, array, error, words):
    refuses(error, words, imsave, array(), tmp_path / "{}.png")
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_may_be_in_the_way(tmp_path):
    (tmp_path / "out").write_text("a file")
    with pytest.raises(NotADirectoryError, match="out' is a file, where a folder is needed"):
        imsave(STACK, tmp_path / "out" / "{}.png")
    (tmp_path / "1.png").mkdir()
    words = "is not written; the files that are there"
    refuses(IsADirectoryError, words, imsave, STACK, tmp_path / "{}.png", overwrite=True)
    assert not list(tmp_path.glob(".*"))
    imsave(STACK[:1], tmp_path / "new" / "{}.png")
    with pytest.raises(FileExistsError, match=r"0\.png' exists; overwrite=True replaces"):
        imsave(STACK, tmp_path / "new" / "{}.png")
    assert len(list((tmp_path / "new").iterdir())) == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written(tmp_path):
    tmp_path.chmod(0o500)
    refuses(PermissionError, "cannot be written", imsave, STACK, tmp_path / "{}.png")


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


def test_no_file_of_several_folders_is_read_and_overwritten(tmp_path):
    (path,) = imsave(STACK[:1], tmp_path / "in" / "{}.png")
    both = da.concatenate([imread(path), imread(path)])
    with pytest.raises(ValueError, match="would overwrite"):
        imsave(both, [tmp_path / "out" / "1.png", path], overwrite=True)


@pytest.mark.parametrize(("source", "target", "refused"), [
    ("", "new{}.tif", True), ("**/*.png", "new{}.png", True), ("../*/?.png", "7.png", True),
    ("link/*.png", "new{}.png", True), ("[0-3].png", "{:d}0.png", True),
    ("*.png", "new{}.tif", True), ("*.png", "deep/{}.png", False),
    ("0.png", "new{}.png", False), (["0.png", "1.png"], "new{}.png", True),
    (["0.png"], "new{}.png", False),
])  # fmt: skip
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
    ("name", "words"), [("a.WEBP", "imageio"), ("a.mp4", "videos"), ("a.nc", r"ninepoint\.open")]
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
    refuses(RuntimeError, "cursed", imsave, array, tmp_path / name, overwrite=True)
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
    words = "[3:4, 0:200, 0:300] is not written; the files that are there are whole"
    assert words in str(caught.value)
    assert old[3].read_bytes() == before[3]
    found = imread(old).compute()
    assert all((a == b).all() or (a == 7).all() for a, b in zip(found, stack, strict=True))


def test_a_missing_extra_is_named(tmp_path, monkeypatch):
    """A module that is set to None cannot be imported: the way Python offers to forbid one."""
    monkeypatch.setitem(sys.modules, "PIL", None)
    refuses(ImportError, r"needs 'PIL', which cannot be.*pip install pillow", imread, tmp_path)
