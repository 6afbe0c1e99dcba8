"""Colour images: channels are no columns, wherever the images come from."""

import pickle
import warnings

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr

import ninepoint as npt
from compared import refuses

RNG = np.random.default_rng(0)
FILM = RNG.integers(0, 256, (3, 20, 24, 3), dtype=np.uint8)
smooth = npt.stencil(lambda x: x[-1:2, -1:2].sum() // 9, boundary="reflect")
along = npt.stencil(lambda x: (x[-1] + x[0] + x[1]) // 3, boundary="reflect")


@npt.stencil(boundary="reflect")
def twice(x):
    once = smooth(x)
    return (once[-1, 0] + once[1, 0]) // 2


later = npt.stencil(lambda x: x[-1, 0, 0] - x[1, 0, 0], boundary="reflect")


def channelwise(kernel, film):
    return np.stack([kernel(film[..., k]) for k in range(film.shape[-1])], axis=-1)


def smooth_each(film):
    return channelwise(smooth, film)


@pytest.fixture(scope="module")
def frames(tmp_path_factory):
    folder = tmp_path_factory.mktemp("frames")
    npt.imsave(FILM, folder / "{:04d}.png")
    return npt.imread(folder / "*.png")


CHANNELS_LAST = [
    lambda x: x[0], lambda x: x[:, 2:, ::2], lambda x: x[..., :2], lambda x: x[..., 1:2],
    lambda x: x[..., ::-1], lambda x: x / 255, lambda x: (x > 99) * x, lambda x: x.max(0),
    lambda x: np.sqrt(x)[2], lambda x: x.reshape(3, 20, 24, 3), lambda x: np.concatenate([x, x]),
    lambda x: np.stack([x[0], x[2]]),
]  # fmt: skip
NO_CHANNELS = [lambda x: x[0, ..., 1], lambda x: x.mean(-1), lambda x: x.transpose(0, 3, 1, 2)]


def test_what_is_computed_from_frames_still_has_its_channels_last_if_it_has_them(frames):
    for kernel, changes in ((smooth_each, CHANNELS_LAST), (smooth, NO_CHANNELS)):
        for change in changes:
            lazy = change(da.asarray(frames))
            wanted = kernel(lazy.compute())
            np.testing.assert_allclose(smooth(lazy).compute(), wanted, rtol=1e-6)
    # The names go along in a pickle, and when persisted.
    persisted, cut = frames.persist(), frames.rechunk((1, 9, 9, 2))
    for lazy in (pickle.loads(pickle.dumps(frames)), persisted, cut):
        np.testing.assert_array_equal(smooth(lazy).compute(), smooth_each(FILM))
    lost = dask.optimize(frames + np.uint8(0))[0].persist()
    with pytest.warns(npt.ChannelWarning):
        smooth(lost)


def test_other_kernels_and_ways_to_call_them(frames):
    for kernel in (along, twice, later, npt.filters.mean):
        np.testing.assert_array_equal(kernel(frames), channelwise(kernel, FILM))
    np.testing.assert_array_equal(smooth(smooth(frames)), smooth_each(smooth_each(FILM)))
    np.testing.assert_array_equal(smooth(npt.lazy(frames)).compute(), smooth_each(FILM))
    labelled = xr.DataArray(frames, dims=("time", "y", "x", "channel"))
    assert smooth(labelled).dims == labelled.dims
    np.testing.assert_array_equal(smooth(labelled), smooth_each(FILM))
    # Lazy values have the shape of what they give.
    lazily = smooth(smooth(npt.lazy(frames)), boundary="valid")
    assert lazily.shape == (3, 18, 22, 3)
    wanted = channelwise(lambda part: smooth(part, boundary="valid"), smooth_each(FILM))
    np.testing.assert_array_equal(lazily.compute().compute(), wanted)
    # Axes that are named are taken.
    for axes in ((-2, -1), (0, 1)):
        np.testing.assert_array_equal(smooth(frames, axes=axes), smooth(FILM, axes=axes))


def test_what_cannot_be_told_is_refused(frames, tmp_path):
    refuses(ValueError, r"3 axes.*besides their channels; axes=\(0, 1, 2\)", later, frames[0])
    later(frames[0], axes=(0, 1, 2)).compute()
    npt.imsave(FILM[:, :, :3], tmp_path / "{}.png")
    narrow = npt.imread(tmp_path)
    np.testing.assert_array_equal(smooth(narrow), smooth_each(FILM[:, :, :3]))
    refuses(ValueError, r"cannot be told .* axes=", smooth, narrow[..., 0])


@pytest.mark.parametrize(("image", "axes"), [
    (FILM[0], "(0, 1)"), (FILM.astype("uint16"), "(1, 2)"),
    (np.concatenate([FILM, FILM[..., :1]], -1), "(1, 2)"),
    (da.from_array(FILM, chunks=(1, 20, 24, 3)), "(1, 2)"),
    (xr.DataArray(FILM[0], dims=("y", "x", "rgb")), "(0, 1)"),
], ids=range(5))  # fmt: skip
def test_what_looks_like_colour_from_elsewhere_is_asked_about(image, axes):
    # Also after calls that were not about colours.
    smooth(RNG.normal(size=image.shape))
    words = f"looks like the channels of colour images. axes={axes} filters every"
    for call in (smooth, smooth, twice, npt.filters.mean):
        with pytest.warns(npt.ChannelWarning) as caught:
            call(image)
        assert words in str(caught[0].message)
        assert caught[0].filename == __file__
    with pytest.warns(npt.ChannelWarning, match="looks like"):
        smooth(npt.lazy(image)).compute()


def test_no_warning_without_need():
    named = xr.DataArray(FILM[0], dims=("y", "x", "c"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for array in (
            FILM[..., 0], FILM[0, :, :3], FILM[:, :10], FILM[..., 0] > 9, FILM / 255,
            FILM.astype(int), np.zeros((100, 100, 3)), RNG.normal(size=(100, 100, 3)),
            np.full((40, 40, 3), np.nan), np.zeros((40, 40, 5), "uint8"),
            np.zeros((0, 40, 40, 3), "uint8"), named.rename(y="lat", x="lon", c="level"),
        ):  # fmt: skip
            smooth(array)
        # Nor where axes are named, or all are used.
        for axes in ((1, 2), (-2, -1)):
            smooth(FILM, axes=axes)
        later(FILM[0])
        along(FILM)
        npt.filters.gaussian(FILM, 1, axes=(1, 2))
        smooth(named, dims=("y", "x"))


def test_steps_do_not_mix_channels_and_one_image_is_not_saved_as_many(frames, tmp_path):
    refuses(ValueError, "move the channels to the front", smooth.iterate, frames, steps=2)
    with pytest.warns(npt.ChannelWarning, match="move the channels to the front"):
        smooth.iterate(FILM, steps=2)
    moved = smooth.iterate(np.moveaxis(frames, -1, 0), steps=2)
    np.testing.assert_array_equal(np.moveaxis(moved, 0, -1), smooth_each(smooth_each(FILM)))
    for image in (frames[0], FILM[0]):
        with pytest.raises(ValueError, match=r"look like one colour image; save array\[None\]"):
            npt.imsave(image, tmp_path / "{}.png")
        (path,) = npt.imsave(image[None], tmp_path / "{}.png", overwrite=True)
        np.testing.assert_array_equal(npt.imread(path)[0], FILM[0])
