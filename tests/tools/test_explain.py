"""What `explain` and `bench` say is so: golden texts without times, and promises kept."""

from __future__ import annotations

import dataclasses
import inspect
import pickle
import pydoc
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import ninepoint as npt
from ninepoint import Schedule
from seams import plan_of

pytestmark = pytest.mark.filterwarnings("ignore::ninepoint.PerformanceWarning")

FOLDER = Path(__file__).parent / "explanations"
WEIGHTS = np.array([[0, 1, 0], [1, -4, 1], [0, 1, 0]])


@npt.stencil
def nine(x):
    return (
        x[-1, -1] + x[-1, 0] + x[-1, 1] + x[0, -1] + x[0, 0] + x[0, 1]
        + x[1, -1] + x[1, 0] + x[1, 1]
    ) // 9  # fmt: skip


@npt.stencil
def middle(x):
    return np.median(x[-1:2, -1:2])


@npt.stencil(boundary="nearest")
def blur(x):
    return x[-15:16, -15:16].mean()


@npt.stencil
def widest(x):
    return x[-15:16, -15:16].max()


@npt.stencil
def laplace(x):
    return (x[-1:2, -1:2] * WEIGHTS).sum()


@npt.stencil
def near(x):
    window = x[-1:2, -1:2]
    return (np.exp(-((window - x[0, 0]) ** 2)) * window).sum()


@npt.stencil(schedule=Schedule(rows=1))
def roots(x):
    return np.sqrt(abs(x[0, 1] - x[0, -1])) + np.sqrt(abs(x[1, 1] - x[1, -1]))


@npt.stencil
def plain_sum(x):
    return x[-1, -1] + x[-1, 0] + x[-1, 1] + x[1, -1] + x[1, 0] + x[1, 1]


@npt.stencil
def ranked(x):
    return np.median(x[-7:8, -7:8])


@npt.stencil(neighborhood=((-1, 1), (-1, 1)))
def searching(x):
    total = 0
    k = -1
    while k < 2:
        total += x[k, 0]
        k += 1
    return total


@npt.stencil
def halvings(x):
    count = 0
    while x[0] > 2**count:
        count += 1
    return count


def note_text(stencil, dtype):
    return plan_of(stencil, dtype).text


@pytest.mark.parametrize(
    ("stencil", "dtype"),
    [
        (nine, "int8"), (middle, "uint8"), (blur, "uint8"), (widest, "float32"),
        (laplace, "float64"), (near, "float32"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)  # fmt: skip
def test_golden(stencil, dtype, golden):
    golden(stencil.explain(dtype), FOLDER / f"{stencil.__name__}.txt")


@npt.stencil(boundary="nearest")
def slopes(u):
    return u[0, 1] - u[0, -1], u[1, 0] - u[-1, 0]


@npt.stencil(boundary="reflect")
def steepness(u):
    across, down = slopes(u)
    return np.sqrt(across[0, 0] ** 2 + down[0, 0] ** 2)


@npt.ufunc
def waves(x, y):
    return np.sin(x) * np.cos(y)


@pytest.mark.parametrize(
    ("stencil", "dtype"),
    [(nine, "int8"), (blur, "uint8"), (searching, "int32"), (halvings, "float32"),
     (steepness, "float32"), (waves, "float64")],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)  # fmt: skip
def test_golden_of_a_gpu(stencil, dtype, golden):
    text = stencil.explain(dtype, device="cuda")
    golden(text, FOLDER / f"{stencil.__name__}_cuda.txt")


@pytest.mark.parametrize(("stencil", "dtype"), [(nine, "int8"), (blur, "uint8")])
def test_every_launch_of_a_gpu_is_named_and_is_in_the_text(stencil, dtype):
    said = re.findall(r"kernel_\w+", stencil.explain(dtype, device="cuda"))
    text = stencil.source(dtype, target="cuda")
    assert said
    assert all(f"{name}(" in text for name in said)
    assert f"kernel_{stencil.__name__}" in said


def test_the_text_for_a_gpu_has_the_border_in_it():
    texts = [
        npt.stencil(boundary=rule)(nine.__wrapped__).source("uint8", target="cuda")
        for rule in ("fill", "reflect")
    ]
    assert all('extern "C" __global__ void' in text for text in texts)
    assert texts[0] != texts[1]
    assert nine.source("uint8", target="cpu") == nine.source("uint8")


def test_texts_of_several_kernels_for_a_gpu():
    text = steepness.source("float32", target="cuda")
    assert "kernel_steepness(" in text
    assert "kernel_slopes(" in text
    assert "kernel_waves(" in waves.source("float64", target="cuda")


def test_a_target_that_is_none_is_refused():
    with pytest.raises(ValueError, match=re.escape("target='gpu' is unknown; use \"cpu\" or")):
        nine.source("uint8", target="gpu")
    with pytest.raises(ValueError, match="device='gpu' is unknown"):
        nine.explain("uint8", device="gpu")


@npt.stencil
def picking(x):
    w = x[-1:2, 0]
    return w[w > x[0, 0]].size


def test_what_a_gpu_cannot_compute_has_no_text_for_one():
    with pytest.raises(npt.StencilError, match="gpu-general"):
        halvings.source("float32", target="cuda")


def test_schedule_changes_what_is_said_and_done():
    assert "share: 5 kept" in note_text(blur, "uint8")
    schedule = dataclasses.replace(blur.schedule(), direct=31)
    at_once = npt.stencil(schedule=schedule)(blur.__wrapped__)
    assert "share: 1 kept" in note_text(at_once, "uint8")


def test_weights_that_are_no_product_are_written_out():
    cross = np.array([[0, 1, 0], [1, -4, 1], [0, 1, 0]])
    weighted = npt.stencil(lambda x: (x[-1:2, -1:2] * cross).sum())
    assert "no product" in note_text(weighted, "float64")


def test_local_value_is_the_reason_not_to_share():
    assert "use a value of the point" in note_text(near, "float32")


def test_columns_and_places():
    assert "in parts that neighbours share: 3 kept" in note_text(middle, "uint8")
    for dtype in ("uint8", "float64"):
        assert "its elements, bytes by a histogram, slide along the row in order" in note_text(
            ranked, dtype
        )


def test_what_neighbours_share_is_counted():
    assert "done once and read at 2 neighbours" in note_text(roots, "float64")
    greedy = npt.stencil(schedule=dataclasses.replace(roots.schedule(), shared=1000.0))
    assert "neighbours share" not in note_text(greedy(roots.__wrapped__), "float64")


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "float64"])
@pytest.mark.parametrize("stencil", [nine, middle, blur, near])
def test_bytes_are_those_of_the_arrays(stencil, dtype):
    result = npt.stencil(boundary="fill")(stencil.__wrapped__)
    inside, outside = np.dtype(dtype).itemsize, plan_of(result, dtype).dtypes[0].itemsize
    expected = f"{inside + outside} bytes a point: {inside} read once, {outside} written once"
    assert expected in stencil.explain(dtype)


def test_lanes_are_those_of_the_text():
    text = npt.stencil(nine.__wrapped__).source("int8")
    assert "i16(" in text
    assert "i64(" not in text
    # For each result 8 sums and a division.
    assert "9 in int16" in nine.explain("int8")


def test_rows_made_at_once_are_counted():
    alone = npt.stencil(schedule=Schedule(rows=1))(nine.__wrapped__)
    single, several = (plan_of(one, "int16").work for one in (alone, nine))
    assert single.loads > several.loads
    assert "3 made at once" in note_text(nine, "int16")
    assert "3 made at once" in note_text(nine, "int8")


def test_border_is_that_of_the_call():
    assert "border      nearest\n" in blur.explain("uint8")
    assert "border      constant with 7" in blur.explain("uint8", boundary="constant", cval=7)


def test_types_alone_compile_nothing():
    fresh = npt.stencil(plain_sum.__wrapped__)
    text = fresh.explain("int32")
    assert "measured" not in text


def test_times_of_real_arrays():
    fresh = npt.stencil(plain_sum.__wrapped__)
    x = np.ones((64, 64), "int16")
    first, second = fresh.explain(x), fresh.explain(x)
    how = r"(compiled|loaded from the cache) in [\d.e+]+ (s|ms|us)"
    speed = r"^  measured .* [\d.]+ of a copy \([\d.]+ \wB/s\), \d thread.*; before: "
    assert re.search(speed + how, first, re.MULTILINE)
    assert re.search(f"{speed}already compiled", second, re.MULTILINE)
    assert first.startswith(fresh.explain("int16"))


def test_general_path_is_measured_too():
    text = picking.explain(np.ones((32, 32)))
    assert "general, because of" in text
    assert "measured" in text


def test_bench_counts_and_computes():
    x = np.arange(6000, dtype="uint8").reshape(2, 50, 60)
    found = nine.bench(x, repeat=4, threads=1, boundary="wrap")
    assert (found.points, found.bytes, found.copy_bytes) == (6000, 12000, 12000)
    assert (found.threads, found.samples) == (1, 4)
    assert found.lower <= found.seconds <= found.upper
    assert found.copy_ratio == found.bytes_per_second / found.copy_bytes_per_second
    assert "\n" not in str(found)
    assert "2x50x60 uint8" in str(found)
    again = nine.bench(x, repeat=1, threads=1, boundary="wrap")
    assert (again.preparation, again.preparation_seconds) == ("already compiled", 0.0)


def test_bench_writes_to_out():
    x = np.ones((30, 40))
    out = np.empty((30, 40))
    nine.bench(x, repeat=1, out=out)
    assert out[1, 1] == 1


@pytest.mark.parametrize(
    ("arguments", "options", "error"),
    [
        (([1, 2, 3],), {}, TypeError),
        ((np.ones((0, 3)),), {}, ValueError),
        ((np.ones((3, 3)),), {"repeat": 0}, ValueError),
        ((np.ones((3, 3)),), {"repeat": 1.5}, TypeError),
        ((np.ones((3, 3)),), {"dims": ("a", "b")}, TypeError),
    ],
)
def test_bench_refuses(arguments, options, error):
    with pytest.raises(error):
        nine.bench(*arguments, **options)


def lines_of(picture):
    """The lines of a picture, and how many cells have each colour."""
    tree = ElementTree.fromstring(picture)
    texts = tree.iter("{http://www.w3.org/2000/svg}text")
    colours = [one.get("fill") for one in tree.iter("{http://www.w3.org/2000/svg}tspan")]
    return ["".join(one.itertext()).rstrip() for one in texts], colours


def test_picture_shows_what_is_read():
    lines, colours = lines_of(laplace._repr_svg_())
    assert lines == [
        f"{laplace.__name__}({', '.join(laplace.parameters)})",
        "x",
        "    -1  0  1",
        " -1  □  ■  □",
        "  0  ■ [■] ■",
        "  1  □  ■  □",
        "axis -2, downward: border fill with 0",
        "axis -1, to the right: border fill with 0",
    ]
    assert colours.count("#7aa6d8") == 5
    assert picking._repr_svg_() is None


def test_picture_has_a_panel_for_each_field_and_outer_offset():
    @npt.stencil(boundary="wrap")
    def moved(x1, y, k):
        return x1[-1, 0, 0] + x1[1, 0, 1] + k * y[0, -1:2, 0].sum()

    # Columns are counted above each panel, and rows beside it.
    lines, colours = lines_of(moved._repr_svg_())
    assert lines == [
        "moved(x1, y, k)",
        "x1[-1, :, :]", "     0  1", " -1  □  □", "  0  ■  □", "  1  □  □",
        "x1[0, :, :]", "     0  1", " -1  □  □", "  0 [□] □", "  1  □  □",
        "x1[1, :, :]", "     0  1", " -1  □  □", "  0  □  ■", "  1  □  □",
        "y[-1, :, :]", "     0  1", " -1  □  □", "  0  □  □", "  1  □  □",
        "y[0, :, :]", "     0  1", " -1  ■  □", "  0 [■] □", "  1  ■  □",
        "y[1, :, :]", "     0  1", " -1  □  □", "  0  □  □", "  1  □  □",
        "axis -3, from panel to panel: border wrap",
        "axis -2, downward: border wrap",
        "axis -1, to the right: border wrap",
    ]  # fmt: skip
    # Each field has a colour of its own.
    assert (colours.count("#7aa6d8"), colours.count("#e69f00")) == (2, 3)


def test_picture_says_what_is_outside_the_array():
    three = np.ones(3)

    @npt.stencil(boundary=(("constant", "keep"), "fill"), cval=7, standard_indexing="w")
    def f(x, w=three):
        return x[0, 0] + w[0] * x[1, 1]

    lines, _ = lines_of(f._repr_svg_())
    for words in (
        "f(x, w=...)",
        "axis -2, downward: constant with 7 before, keep after",
        "axis -1, to the right: border fill with 7",
    ):
        assert words in lines
    assert repr(f) == "<stencil f(x, w=...)>"


def test_picture_of_a_signal_counts_columns_only():
    _, field, counted, cells, *below = lines_of(
        npt.stencil(lambda signal: signal[-12:13].sum())._repr_svg_()
    )[0]
    # Of many offsets the first, the last and the point itself are told.
    assert counted.split() == ["-12", "0", "12"]
    assert (field, cells.count("■"), cells.index("[■]")) == ("signal", 25, 40)
    assert below == ["axis -1, to the right: border fill with 0"]


def test_picture_of_stages_tells_what_makes_them():
    @npt.stencil(boundary="wrap")
    def corners(x, k=1):
        steep = laplace(x, boundary="nearest")
        return steep[0, 1] - k * x[2, 0]

    lines, colours = lines_of(corners._repr_svg_())
    assert 'steep = laplace(x, boundary="nearest")' in lines
    assert colours.count("#7aa6d8") == colours.count("#e69f00") == 1


def test_signature_and_words_come_in_pickles_too():
    def mine(x, /, gain=2, *, w):
        """Say what it is."""
        return gain * x[0] * w

    there = npt.Stencil(pickle.loads(pickle.dumps(definition_of(mine))))
    assert str(inspect.signature(there)).startswith("(x, /, gain=2, *, w, boundary=None, ")
    assert there.__doc__ == "Say what it is."
    assert "mine(x, /, gain=2, *, w, boundary=" in pydoc.render_doc(
        there, renderer=pydoc.plaintext
    )


def definition_of(function):
    """A definition as it is in a process that did not decorate it."""
    made = npt.stencil(function).definition
    return type(made)(pickle.loads(pickle.dumps(made.function)), made.options)


def test_picture_of_a_lambda_is_valid():
    ElementTree.fromstring(npt.stencil(lambda x: x[-1])._repr_svg_())
    assert npt.stencil(lambda x: x[-9:10, 0, 0].sum())._repr_svg_() is None


def test_what_a_prompt_shows_is_what_print_does():
    found = laplace.bench(np.ones((30, 30)), repeat=1)
    assert repr(found) == str(found)
    for text in (laplace.explain("uint8"), laplace.ir("uint8"), laplace.source("uint8")):
        assert repr(text) == str(text)
        assert pickle.loads(pickle.dumps(text)) == text
        assert "\n" in repr(text)


def test_bench_counts_the_threads_of_one_call():
    big = np.ones((1500, 1500))
    for _ in range(5):
        assert laplace.bench(big, repeat=1, threads=2).threads <= 2


def test_help_shows_the_users_words():
    @npt.stencil
    def mine(x, gain=2):
        """Say what it is."""
        return gain * x[0]

    words = pydoc.render_doc(mine, renderer=pydoc.plaintext)
    assert "Say what it is." in words
    assert "mine(x, gain" in words
    assert "class Stencil" not in words
    assert str(inspect.signature(mine)).startswith("(x, gain=2, *, boundary=None, ")
    other = npt.stencil(lambda x: x[0])
    assert "class Stencil" not in pydoc.render_doc(other, renderer=pydoc.plaintext)


@npt.stencil(standard_indexing="lut")
def looked_up(x, lut, gain=2):
    return lut[1] * x[1] + lut[0] * x[0] * gain


@npt.stencil(standard_indexing=("a", "b"))
def mixed_order(a, x, b, y):
    return a[0] * x[0] + b[1] * y[1]


@pytest.mark.parametrize("ask", ["explain", "ir", "source"])
def test_small_arrays_stand_where_they_do_in_a_call(ask):
    x, lut = np.arange(6.0), np.array([0.5, 2.0], "float32")
    of_types = getattr(looked_up, ask)("float64", lut)
    assert "looked_up" in of_types or ask == "ir"
    for given in ((x, lut), ("float64", lut), (np.float64, lut), (x.tolist(), lut)):
        found = getattr(looked_up, ask)(*given)
        if ask != "explain":
            assert found == of_types
    assert getattr(mixed_order, ask)(lut, x, lut, x)
    assert getattr(mixed_order, ask)(lut, "float64", lut, "uint8")
    with pytest.raises(TypeError, match="'b' is indexed absolutely, so its shape counts"):
        getattr(mixed_order, ask)(lut, "float64", "float32", "uint8")
    with pytest.raises(ValueError, match="has 2 fields"):
        getattr(mixed_order, ask)("float32", "float64", "float32")
    with pytest.raises(ValueError, match="has 1 field"):
        getattr(looked_up, ask)("float32", "float64", "float32")


def test_small_arrays_stand_where_they_do_in_a_call_to_measure():
    x, lut = np.arange(600.0), np.array([0.5, 2.0])
    assert looked_up.bench(x, lut, repeat=1).points == 600
    assert "measured" in looked_up.explain(x, lut)
    assert looked_up.schedule(x, lut) == looked_up.schedule("float64")


def test_why_steps_are_not_done_in_one_pass():
    @npt.stencil(dtype="float16")
    def half(x):
        return x[-1] / 2 + x[1] / 2

    @npt.stencil(dtype="float16")
    def step(x):
        a = half(x)
        return a[0] + x[1]

    reason = "rows are kept as float32, and each step rounds to float16"
    assert f"  iterate     one step after the other: {reason}" in half.explain("float16")
    line = f"\n  iterate     one step after the other: 'a': {reason}"
    assert step.explain("float16").endswith(line)
    # These cannot be iterated, or are done in one pass.
    assert "iterate" not in half.explain("float64") + laplace.explain("float64")


def test_shapes_are_told_as_runs():
    disk, near = npt.shapes.disk(5), slice(-5, 6)
    told = note_text(npt.stencil(lambda x: x[near, near][disk].max()), "uint8")
    assert "max over 81 elements" in told
    assert "in parts that neighbours share: 2 kept" in told
    told = note_text(npt.stencil(lambda x: np.median(x[near, near][disk])), "uint8")
    assert "its elements, bytes by a histogram, slide along the row in order" in told
