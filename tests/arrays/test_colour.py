"""Colour images: channels are no columns, wherever the images come from."""

from __future__ import annotations

import pickle
import warnings

import dask
import dask.array as da
import numpy as np
import pytest
import tifffile
import xarray as xr
from PIL import Image

import ninepoint as npt

RNG = np.random.default_rng(0)
FILM = RNG.integers(0, 256, (3, 20, 24, 3), dtype=np.uint8)


@npt.stencil(boundary="reflect")
def smooth(x):
    return x[-1:2, -1:2].sum() // 9


@npt.stencil(boundary="reflect")
def along(x):
    return (x[-1] + x[0] + x[1]) // 3


@npt.stencil(boundary="reflect")
def twice(x):
    once = smooth(x)
    return (once[-1, 0] + once[1, 0]) // 2


@npt.stencil(boundary="reflect")
def later(x):
    return x[-1, 0, 0] - x[1, 0, 0]


def channelwise(kernel, film, axes=(1, 2)):
    parts = [film[..., k] for k in range(film.shape[-1])]
    return np.stack([kernel(part) for part in parts], axis=-1)


@pytest.fixture
def frames(tmp_path):
    npt.imsave(FILM, tmp_path / "in" / "{:04d}.png")
    return npt.imread(tmp_path / "in" / "*.png")


def test_the_first_program_of_the_readme(frames, tmp_path):
    npt.imsave(smooth(frames), tmp_path / "out" / "{:04d}.png")
    back = npt.imread(tmp_path / "out").compute()
    np.testing.assert_array_equal(back, channelwise(smooth, FILM))


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x[0],
        lambda x: x[1:],
        lambda x: x[:, 2:, ::2],
        lambda x: x[..., :2],
        lambda x: x[..., 1:2],
        lambda x: x[..., ::-1],
        lambda x: x.astype("float32"),
        lambda x: x / 255,
        lambda x: (x > 99) * x,
        lambda x: x.max(0),
        lambda x: np.sqrt(x)[2],
        lambda x: x.reshape(3, 20, 24, 3),
        lambda x: np.concatenate([x, x]),
        lambda x: np.stack([x[0], x[2]]),
    ],
)
def test_what_is_computed_from_frames_still_has_its_channels_last(frames, change):
    lazy = change(da.asarray(frames))
    expected = channelwise(smooth, change(FILM) if lazy.dtype != "float32" else lazy.compute())
    np.testing.assert_allclose(smooth(lazy).compute(), expected, rtol=1e-6)


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x[..., 0],
        lambda x: x[0, ..., 1],
        lambda x: x.mean(-1),
        lambda x: x.transpose(0, 3, 1, 2),
    ],
)
def test_without_channels_the_last_axes_count_again(frames, change):
    np.testing.assert_allclose(smooth(change(frames)).compute(), smooth(change(FILM)), rtol=1e-14)


def test_other_kernels_and_ways_to_call_them(frames):
    np.testing.assert_array_equal(along(frames).compute(), channelwise(along, FILM))
    np.testing.assert_array_equal(twice(frames).compute(), channelwise(twice, FILM))
    np.testing.assert_array_equal(later(frames).compute(), channelwise(later, FILM))
    np.testing.assert_array_equal(smooth(smooth(frames)), channelwise(smooth, smooth_each(FILM)))
    np.testing.assert_array_equal(smooth(npt.lazy(frames)).compute(), smooth_each(FILM))
    for name, filtered in {
        "gaussian": npt.filters.gaussian,
        "mean": npt.filters.mean,
    }.items():
        expected = channelwise(filtered, FILM)
        np.testing.assert_array_equal(filtered(frames), expected, err_msg=name)


def test_lazy_values_have_the_shape_of_what_they_give(frames):
    lazily = smooth(smooth(npt.lazy(frames)), boundary="valid")
    assert lazily.shape == (3, 18, 22, 3)
    once = smooth_each(FILM)
    expected = channelwise(lambda part: smooth(part, boundary="valid"), once)
    np.testing.assert_array_equal(lazily.compute().compute(), expected)


def smooth_each(film):
    return channelwise(smooth, film)


def test_the_names_go_along_in_a_pickle_and_when_persisted(frames):
    for lazy in (
        pickle.loads(pickle.dumps(frames)),
        frames.persist(),
        frames.rechunk((1, 9, 9, 2)),
    ):
        np.testing.assert_array_equal(smooth(lazy).compute(), smooth_each(FILM))


def test_xarray_around_frames(frames):
    labelled = xr.DataArray(frames, dims=("time", "y", "x", "channel"))
    found = smooth(labelled)
    assert found.dims == labelled.dims
    np.testing.assert_array_equal(found, smooth_each(FILM))


def test_axes_that_are_named_are_taken(frames):
    with_columns = smooth(FILM, axes=(-2, -1))
    np.testing.assert_array_equal(smooth(frames, axes=(-2, -1)).compute(), with_columns)
    np.testing.assert_array_equal(smooth(frames, axes=(0, 1)), smooth(FILM, axes=(0, 1)))


def test_a_kernel_that_needs_the_axis_of_the_channels_is_refused(frames):
    with pytest.raises(ValueError, match=r"3 axes.*besides their channels; axes=\(0, 1, 2\)"):
        later(frames[0])
    later(frames[0], axes=(0, 1, 2)).compute()


def test_frames_so_narrow_that_it_cannot_be_told(tmp_path):
    npt.imsave(FILM[:, :, :3], tmp_path / "{}.png")
    narrow = npt.imread(tmp_path)
    np.testing.assert_array_equal(smooth(narrow), smooth_each(FILM[:, :, :3]))
    with pytest.raises(ValueError, match=r"cannot be told .* axes="):
        smooth(narrow[..., 0])


@pytest.mark.parametrize("kind", ["contig", "separate", "16 bits", "palette", "alpha", "grey"])
def test_every_kind_of_colour_file(tmp_path, kind):
    path = tmp_path / "one.tif"
    image = FILM[0]
    match kind:
        case "contig" | "separate":
            data = np.moveaxis(image, -1, 0) if kind == "separate" else image
            tifffile.imwrite(path, data, photometric="rgb", planarconfig=kind)
        case "16 bits":
            path = tmp_path / "one.png"
            image = image.astype("uint16") * 200
            npt.imsave(image, path)
        case "palette":
            path = tmp_path / "one.png"
            Image.fromarray(image).quantize(200).save(path)
            image = np.asarray(Image.open(path).convert("RGB"))
        case "alpha":
            path = tmp_path / "one.png"
            image = np.concatenate([image, image[..., :1]], axis=-1)
            npt.imsave(image, path)
        case "grey":
            path = tmp_path / "one.png"
            image = image[..., :2]
            npt.imsave(image[None], tmp_path / "one{}.png")
            path = tmp_path / "one0.png"
    frames = npt.imread(path)
    np.testing.assert_array_equal(frames.compute()[0], image)
    np.testing.assert_array_equal(smooth(frames).compute()[0], smooth_each(image))


@pytest.mark.parametrize(
    ("image", "axes"),
    [
        (FILM[0], "(0, 1)"),
        (FILM, "(1, 2)"),
        (FILM.astype("uint16"), "(1, 2)"),
        (np.concatenate([FILM, FILM[..., :1]], -1), "(1, 2)"),
        (da.from_array(FILM, chunks=(1, 20, 24, 3)), "(1, 2)"),
        (xr.DataArray(FILM[0], dims=("y", "x", "rgb")), "(0, 1)"),
    ],
    ids=range(6),
)
def test_what_looks_like_colour_from_elsewhere_is_asked_about(image, axes):
    words = f"looks like the channels of colour images. axes={axes} filters every"
    for call in (smooth, twice, npt.filters.mean):
        with pytest.warns(npt.ChannelWarning) as caught:
            call(image)
        assert words in str(caught[0].message)
        assert caught[0].filename == __file__
    with pytest.warns(npt.ChannelWarning, match="looks like"):
        smooth(npt.lazy(image)).compute()


@pytest.mark.parametrize(
    "array",
    [
        FILM[..., 0],
        FILM[0, :, :3],
        FILM[:, :10],
        FILM[..., 0] > 9,
        np.zeros((100, 100, 3)),
        RNG.normal(size=(100, 100, 3)),
        np.full((40, 40, 3), np.nan),
        FILM / 255,
        FILM.astype(int),
        np.zeros((40, 40, 5), "uint8"),
        np.zeros((0, 40, 40, 3), "uint8"),
        xr.DataArray(FILM[0], dims=("lat", "lon", "level")),
    ],
    ids=range(12),
)
def test_no_warning_without_need(array):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        smooth(array)


def test_no_warning_where_axes_are_named_or_all_are_used():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        smooth(FILM, axes=(1, 2))
        smooth(FILM, axes=(-2, -1))
        later(FILM[0])
        along(FILM)
        npt.filters.gaussian(FILM, 1, axes=(1, 2))
        smooth(xr.DataArray(FILM[0], dims=("y", "x", "c")), dims=("y", "x"))


def test_steps_do_not_mix_channels(frames):
    with pytest.raises(ValueError, match="move the channels to the front"):
        smooth.iterate(frames, steps=2)
    with pytest.warns(npt.ChannelWarning, match="move the channels to the front"):
        smooth.iterate(FILM, steps=2)
    moved = smooth.iterate(np.moveaxis(frames, -1, 0), steps=2)
    np.testing.assert_array_equal(np.moveaxis(moved, 0, -1), smooth_each(smooth_each(FILM)))


def test_knowledge_that_is_lost_becomes_a_question(frames):
    lost = dask.optimize(frames + np.uint8(0))[0].persist()
    with pytest.warns(npt.ChannelWarning):
        smooth(lost)


@pytest.mark.parametrize("lazy", [False, True])
def test_one_colour_image_is_not_saved_as_many_narrow_ones(frames, tmp_path, lazy):
    image = frames[0] if lazy else FILM[0]
    with pytest.raises(ValueError, match=r"look like one colour image; save array\[None\]"):
        npt.imsave(image, tmp_path / "{}.png")
    (path,) = npt.imsave(image[None], tmp_path / "{}.png")
    np.testing.assert_array_equal(npt.imread(path)[0], FILM[0])


def test_it_is_asked_about_after_calls_that_were_not_about_colours():
    noise = np.random.default_rng(1).normal(size=FILM.shape)
    for _ in range(3):
        smooth(noise)
    with pytest.warns(npt.ChannelWarning):
        smooth(FILM)
