"""A result on Dask has the shape that NumPy's has, in chunks of the sizes that it says."""

from functools import partial

import dask.array as da
import numpy as np
import pytest
from chunked import equal

import ninepoint as npt
from compared import each
from seams import interpreted

added = npt.stencil(lambda x, y: 2 * x[0, 0] + y[0, 0])
both = npt.stencil(lambda x, y: (x[0, -1] - y[2, 1], x[0, 0] + y[0, 0]), boundary="nearest")
inner = npt.stencil(lambda x, y: x[-1, 0] + y[1, 1], boundary="valid")
coarse = npt.stencil(lambda x: x[0, 0] + x[0, 1], boundary="nearest", every=(1, 2))
fine = npt.stencil(lambda x, y: x[0, 0] + y[0, 1], boundary="nearest", upsample=2)


@npt.stencil
def staged(x, y):
    thin = coarse(y)
    return x[0, 0] + thin[0, 0]


@npt.stencil
def alone(x, y):
    one = inner(x, y)
    return one[0, 0] * x[0, 0]


flat = npt.stencil(lambda x, y: x[-1] + y[0], boundary="nearest")
split = npt.ufunc(lambda x, y: (x - y, x + 1))


CALLS = {
    "added": added,
    "two results": both,
    "valid": inner,
    "two, every": partial(both, every=(2, 1)),
    "finer": fine,
    "first axis alone": partial(both, boundary=("wrap", "valid"), axes=(1, 0)),
    "conditions": partial(both, boundary=npt.dirichlet(2.0)),
    "ufunc of two": split,
}

# Lengths that broadcast, of the first field and of the second.
SHAPES = [
    ((4, 1), (4, 5)), ((1, 5), (4, 5)), ((1, 1), (4, 5)), ((5,), (4, 5)), ((4, 1), (1, 5)),
    ((2, 1, 5), (4, 5)), ((1, 4, 5), (3, 4, 5)), ((3, 1, 1), (4, 5)), ((0, 5), (1, 5)),
    ((1, 1), (1, 1)), ((4, 1), (0, 4, 5)),
]  # fmt: skip


def check(call, fields, chunks):
    """Compare a call on fields, some of them cut, with the same on NumPy, chunk by chunk."""
    lazy = [
        one if how is None else da.from_array(one, chunks=how, name=False)
        for one, how in zip(fields, chunks, strict=True)
    ]
    try:
        wanted = each(call(*fields))
    except ValueError:
        with pytest.raises(ValueError, match=r"."):
            call(*lazy)
        return
    for one, right in zip(each(call(*lazy)), wanted, strict=True):
        assert one.shape == right.shape, (lazy, one)
        blocks = np.empty(one.numblocks, object)
        for place in np.ndindex(*one.numblocks):
            blocks[place] = one.blocks[place].compute(scheduler="sync")
            assert np.shape(blocks[place]) == one.blocks[place].shape
        np.testing.assert_array_equal(np.block(blocks.tolist()), right)
        if one.ndim and one.shape[-1]:
            equal(one[..., -1], right[..., -1])


@pytest.mark.parametrize("name", CALLS)
def test_fields_that_broadcast(name):
    # Each call with half of the shapes, in turn, and each with another way to be cut.
    first = list(CALLS).index(name) % 2
    with interpreted():
        for number, shapes in list(enumerate(SHAPES))[first::2]:
            fields = [np.arange(np.prod(shape)).reshape(shape) * 7.0 % 9 for shape in shapes]
            fields = fields[:: 1 if number // 2 % 2 else -1]
            ways = [(-1, -1), (None, -1), (-1, None), (-1, 2), (2, 2), (2, None)]
            check(CALLS[name], fields, ways[(2 * number + first) % len(ways)])


def test_a_stage_with_fewer_points_and_a_field_without_axes():
    rng = np.random.default_rng(1)
    with interpreted():
        for call, shape in [(staged, (3, 4)), (alone, (3, 2))]:
            fields = rng.random(shape), rng.random((3, 2))
            for chunks in [(-1, -1), (None, -1), (-1, None), (2, 1)]:
                check(call, fields, chunks)
        for chunks in (-1, 2, (4, 5)):
            for other in (None, ()):
                check(flat, (rng.random((6, 5)), np.array(3.0)), (chunks, other))


def test_xarray_and_saving(tmp_path):
    xarray = pytest.importorskip("xarray")
    x = xarray.DataArray(np.arange(3.0), dims="x", coords={"x": [1, 2, 3]})
    y = xarray.DataArray(np.arange(4.0), dims="y")
    for one, other in [(x.chunk(), y.chunk()), (x, y.chunk()), (x.chunk(2), y)]:
        for call in (npt.ufunc(lambda x, y: 2 * x + y), partial(added, dims=("x", "y"))):
            xarray.testing.assert_identical(call(one, other).compute(), call(x, y))
    lat, field = np.arange(4.0)[:, None], np.random.default_rng(0).random((4, 6))
    npt.save(added(lat, da.from_array(field)), tmp_path / "sum.zarr")
    equal(npt.open(tmp_path / "sum.zarr"), added(lat, field))


def test_chunks_without_points():
    a = np.zeros((0, 6))
    lazy = npt.filters.mean(da.from_array(a, chunks=((0, 0), (2, 4))))
    assert lazy.compute().shape == (0, 6)
