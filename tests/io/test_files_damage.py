"""Damaged, hostile and unequal images: one error that names the file, no made-up pixels."""

import os
import pickle
import shutil
import struct
import zlib
from importlib.util import find_spec

import numpy as np
import pytest
import tifffile
from PIL import Image

from ninepoint import ImageReadError, imread, imsave

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
    with pytest.raises(ImageReadError, match=r"bad header checksum in b'IDAT'"):
        imread(path).compute()
    path = tmp_path / "a.jpg"
    image(path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(ImageReadError, match=r"frame 0 from .*a\.jpg: image file is tr"):
        imread(path).compute()


ELSEWHERE = (
    "it is no PNG, JPEG or TIFF image; ninepoint.open(path) reads .npy, .nc, .h5 and .zarr, and "
    "imageio.v3.imread(path) other images and videos"
)
MANY = (
    "pixels, more than max_pixels=268435456; if you trust the file, raise max_pixels or pass "
    "max_pixels=None"
)


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
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
        ("a.png", rgb(60000, 60000), f"it claims 60000 x 60000 {MANY}"),
        ("a.png", rgb(16000, 16000),
         "it claims 16000 x 16000 x 3 uint8 pixels, which its 65 bytes cannot hold"),
    ],
)  # fmt: skip
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
    with pytest.raises(ImageReadError, match="which its 65 bytes cannot hold"):
        imread(path, max_pixels=None)
    with pytest.raises(ValueError, match="max_pixels is a positive number or None, not 0"):
        imread(path, max_pixels=0)
    # Many pixels of nothing.
    for name in ("0.png", "1.png"):
        Image.new("L", (3000, 2000)).save(tmp_path / name)
    assert imread(path).shape == (1, 2000, 3000)
    with pytest.raises(ImageReadError, match="more than max_pixels=1000000;"):
        imread(path, max_pixels=10**6)
    imsave(np.zeros((5, 5), np.uint8), path, overwrite=True)
    frames = imread(tmp_path, max_pixels=100)
    with pytest.raises(ImageReadError, match=r"frame 1 .*1\.png: it is 2000 x 3000 uint8, but"):
        frames.compute()


@pytest.mark.parametrize(
    ("start", "stored", "reason"),
    [
        (0, 20, "its strip or tile 0 is missing"),
        (8, 0, "its strip or tile 0 is missing"),
        (8, 20, "it claims 2500 bytes of pixels, which its 20 cannot hold"),
        (8, 2500, "the file is truncated: strip or tile 0 ends at byte 2508 of 122"),
        (10**9, 2500, "the file is truncated: strip or tile 0 ends at byte 1000002500 of 122"),
    ],
)
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
    with pytest.raises(ImageReadError, match=r"cannot read frame 40 from .*39\.tif: it is trunc"):
        imread(tmp_path)


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
    with pytest.raises(ImportError, match="which TIFF holds too, needs 'imagecodecs'"):
        imsave(colour, path)
    rows = b"".join(b"\0" + row.tobytes() for row in colour.astype(">u2"))
    path.write_bytes(png(11, 9, 16, 2, 0, 0, 0, pixels=rows))
    with pytest.raises(ImportError, match="pip install imagecodecs"):
        imread(path)


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
        with pytest.raises(ImageReadError, match=words):
            imread(tmp_path / name)
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
        with pytest.raises(error, match=words):
            imread(given)


def test_chunks_of_no_frames_and_a_file_that_goes_missing(tmp_path):
    paths = imsave(np.zeros((3, 4, 5), np.uint8), tmp_path / "{}.png")
    with pytest.raises(ValueError, match="chunks is a number of frames or 'auto', not 0"):
        imread(tmp_path, chunks=0)
    frames = imread(tmp_path)
    paths[1].unlink()
    with pytest.raises(FileNotFoundError, match=r"1\.png"):
        frames.compute()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_forbidden(tmp_path):
    image(tmp_path / "a.png")
    (tmp_path / "a.png").chmod(0)
    with pytest.raises(PermissionError):
        imread(tmp_path)
