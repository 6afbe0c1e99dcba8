"""What `explain`, `bench` and pictures say is so: golden texts without times, and promises."""

import pickle
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import ninepoint as npt
from compared import refuses
from ninepoint import Schedule
from seams import plan_of

FOLDER = Path(__file__).parent / "explanations"
WEIGHTS = np.array([[0, 1, 0], [1, -4, 1], [0, 1, 0]])


@npt.stencil
def nine(x):
    return (
        x[-1, -1] + x[-1, 0] + x[-1, 1] + x[0, -1] + x[0, 0] + x[0, 1]
        + x[1, -1] + x[1, 0] + x[1, 1]
    ) // 9  # fmt: skip


@npt.stencil
def laplace(x):
    return (x[-1:2, -1:2] * WEIGHTS).sum()


@npt.stencil
def near(x):
    window = x[-1:2, -1:2]
    return (np.exp(-((window - x[0, 0]) ** 2)) * window).sum()


@npt.stencil
def halvings(x):
    count = 0
    while x[0] > 2**count:
        count += 1
    return count


@npt.stencil(boundary="nearest")
def slopes(u):
    return u[0, 1] - u[0, -1], u[1, 0] - u[-1, 0]


@npt.stencil(boundary="reflect")
def steepness(u):
    across, down = slopes(u)
    return np.sqrt(across[0, 0] ** 2 + down[0, 0] ** 2)


GOLDEN = [
    (nine, "int8", {}), (laplace, "float64", {}), (near, "float32", {}),
    (steepness, "float32", {"device": "cuda"}), (halvings, "float32", {"device": "cuda"}),
]  # fmt: skip


@pytest.mark.parametrize(("stencil", "dtype", "options"), GOLDEN)
def test_golden(stencil, dtype, options, golden):
    name = "_".join([stencil.__name__, *options.values()])
    golden(stencil.explain(dtype, **options), FOLDER / f"{name}.txt")


@npt.stencil(boundary="nearest")
def blur(x):
    return x[-15:16, -15:16].mean()


def middle(x):
    return np.median(x[-1:2, -1:2])


def ranked(x):
    return np.median(x[-7:8, -7:8])


def roots(x):
    return np.sqrt(abs(x[0, 1] - x[0, -1])) + np.sqrt(abs(x[1, 1] - x[1, -1]))


DISK, AROUND = npt.shapes.disk(5), slice(-5, 6)
SLIDE = "its elements, bytes by a histogram, slide along the row in order"


@pytest.mark.parametrize(("kernel", "schedule", "dtype", "words"), [
    (blur.__wrapped__, {}, "uint8", "share: 5 kept"),
    (blur.__wrapped__, {"direct": 31}, "uint8", "share: 1 kept"),
    (middle, {}, "uint8", "in parts that neighbours share: 3 kept"),
    (ranked, {}, "uint8", SLIDE),
    (ranked, {}, "float64", SLIDE),
    (roots, {"rows": 1}, "float64", "done once and read at 2 neighbours"),
    (lambda x: x[AROUND, AROUND][DISK].max(), {}, "uint8", "neighbours share: 2 kept"),
    (lambda x: np.median(x[AROUND, AROUND][DISK]), {}, "uint8", SLIDE),
])  # fmt: skip
def test_how_it_is_done_is_noted(kernel, schedule, dtype, words):
    assert words in plan_of(npt.stencil(kernel, schedule=Schedule(**schedule)), dtype).text


def test_nothing_is_noted_of_what_is_not_done_and_bytes_are_those_of_the_call():
    greedy = npt.stencil(roots, schedule=Schedule(rows=1, shared=1000.0))
    assert "neighbours share" not in plan_of(greedy, "float64").text
    for stencil, dtype in ((nine, "int16"), (npt.stencil(middle), "uint8"), (near, "float64")):
        inside, outside = np.dtype(dtype).itemsize, plan_of(stencil, dtype).dtypes[0].itemsize
        expected = f"{inside + outside} bytes a point: {inside} read once, {outside} written once"
        assert expected in stencil.explain(dtype)
    assert "border      nearest\n" in blur.explain("uint8")
    assert "border      constant with 7" in blur.explain("uint8", boundary="constant", cval=7)


def test_why_steps_are_not_done_in_one_pass():
    @npt.stencil(dtype="float16")
    def half(x):
        return x[-1] / 2 + x[1] / 2

    @npt.stencil(dtype="float16")
    def step(x):
        a = half(x)
        return a[0] + x[1]

    reason, x = "rows are kept as float32, and each step rounds to float16", np.zeros(50, "f2")
    assert f"100 steps, one after the other: {reason}" in half.iterate.explain(x, steps=100)
    assert f"one after the other: 'a': {reason}" in step.iterate.explain(x, steps=100)
    # Of few bytes it is not worth to compile a pass of several.
    text = npt.stencil(half.__wrapped__).iterate.explain(np.zeros(50), steps=100)
    told = "Give 800 B beside the fields for two states: 100 steps, one after the other"
    assert text.startswith(told)


@npt.ufunc
def waves(x, y):
    return np.sin(x) * np.cos(y)


@pytest.mark.parametrize(
    ("stencil", "dtype"),
    [(nine, "int8"), (blur, "uint8"), (steepness, "float32"), (waves, "float64")],
)
def test_every_launch_of_a_gpu_is_named_and_is_in_the_text(stencil, dtype):
    said = re.findall(r"kernel_\w+", stencil.explain(dtype, device="cuda"))
    text = stencil.source(dtype, target="cuda")
    assert all(f"{name}(" in text for name in said)
    assert f"kernel_{stencil.__name__}" in said
    assert stencil.source(dtype, target="cpu") == stencil.source(dtype)
    assert ("kernel_slopes" in said) == (stencil is steepness)


@npt.stencil
def picking(x):
    w = x[-1:2, 0]
    return w[w > x[0, 0]].size


def test_times_of_real_arrays():
    fresh, x = npt.stencil(boundary="wrap")(nine.__wrapped__), np.ones((64, 64), "int8")
    first, second = fresh.explain(x), fresh.explain(x)
    how = r"(compiled|loaded from the cache) in [\d.e+]+ (s|ms|us)"
    speed = r"^  measured .* [\d.]+ of a copy \([\d.]+ \wB/s\), \d thread.*; before: "
    assert re.search(speed + how, first, re.MULTILINE)
    assert re.search(f"{speed}already compiled", second, re.MULTILINE)
    advice, said = first.split("\n", 1)
    assert re.search(r"to be faster: it runs at [\d.]+ of the speed of a copy\.$", advice)
    assert said.startswith(fresh.explain("int8").split("\n", 1)[1])
    # The general path is measured too.
    text = picking.explain(np.ones((32, 32)))
    assert "general, because of" in text
    assert "measured" in text


@npt.stencil(boundary="reflect")
def far(x):
    s = blur(x)
    return s[-700, 0] + s[700, 0]


def test_the_first_line_says_what_to_do_and_bench_counts_and_computes():
    for stencil, dtype, words in (
        (picking, "float64", "Say which elements count with where="),
        (blur, "uint8", "Give dtype='uint8' and overflow='saturate' if whole numbers are enough"),
        (blur, "float32", "Nothing stands in the way"),
        (far, "float32", "See to 's', which is stored whole: "),
    ):
        assert stencil.explain(dtype).startswith(words)
    x = np.arange(6000, dtype="uint8").reshape(2, 50, 60)
    out = np.empty_like(nine(x))
    found = nine.bench(x, repeat=4, threads=1, out=out)
    np.testing.assert_array_equal(out, nine(x))
    assert (found.points, found.bytes, found.copy_bytes) == (6000, 12000, 12000)
    assert (found.threads, found.samples) == (1, 4)
    assert found.lower <= found.seconds <= found.upper
    assert found.copy_ratio == found.bytes_per_second / found.copy_bytes_per_second
    assert "\n" not in str(found)
    assert "2x50x60 uint8" in str(found)
    again = nine.bench(x, repeat=1, threads=1)
    assert (again.preparation, again.preparation_seconds) == ("already compiled", 0.0)
    assert nine.bench(np.ones((1500, 1500), "uint8"), repeat=1, threads=2).threads <= 2


@npt.stencil(standard_indexing="lut")
def looked_up(x, lut, gain=2):
    return lut[1] * x[1] + lut[0] * x[0] * gain


@npt.stencil(standard_indexing=("a", "b"))
def mixed_order(a, x, b, y):
    return a[0] * x[0] + b[1] * y[1]


@pytest.mark.parametrize("ask", ["explain", "ir", "source"])
def test_small_arrays_stand_where_they_do_in_a_call(ask):
    x, lut = np.arange(6.0), np.array([0.5, 2.0], "float32")
    told = getattr(looked_up, ask)
    for given in ((x, lut), (np.float64, lut), (x.tolist(), lut)):
        lines = told("float64", lut).splitlines()[1:5]
        # What to do depends on what was measured.
        assert told(*given).splitlines()[1:5] == lines
    refuses(ValueError, "has 1 field", told, "float32", "float64", "float32")
    told = getattr(mixed_order, ask)
    assert told(lut, x, lut, x)
    assert told(lut, "float64", lut, "uint8")
    with pytest.raises(TypeError, match="'b' is indexed absolutely, so its shape counts"):
        told(lut, "float64", "float32", "uint8")
    refuses(ValueError, "has 2 fields", told, "float32", "float64", "float32")


def test_small_arrays_stand_where_they_do_in_a_call_to_measure():
    x, lut = np.arange(600.0), np.array([0.5, 2.0])
    assert looked_up.bench(x, lut, repeat=1).points == 600
    assert looked_up.schedule(x, lut) == looked_up.schedule("float64")


@npt.stencil(boundary="wrap")
def moved(x1, y, k):
    return x1[-1, 0, 0] + x1[1, 0, 1] + k * y[0, 0, 1]


@npt.stencil(boundary=(("constant", "keep"), "fill"), cval=7, standard_indexing="w")
def beyond(x, w=WEIGHTS[0]):
    return x[0, 0] + w[0] * x[1, 1]


@npt.stencil(boundary="wrap")
def corners(x, k=1):
    steep = laplace(x, boundary="nearest")
    return steep[0, 1] - k * x[2, 0]


BLUE, ORANGE = "#7aa6d8", "#e69f00"
PICTURES = {
    # What is read, and of each field in a colour of its own.
    laplace: ((5, 0), [
        "laplace(x)",
        "x", "    -1  0  1", " -1  □  ■  □", "  0  ■ [■] ■", "  1  □  ■  □",
        "axis -2, downward: border fill with 0",
        "axis -1, to the right: border fill with 0",
    ]),
    # Columns are counted above each panel, and rows beside it.
    moved: ((2, 1), [
        "moved(x1, y, k)",
        "x1[-1, :, :]", "     0  1", "  0  ■  □",
        "x1[0, :, :]", "     0  1", "  0 [□] □",
        "x1[1, :, :]", "     0  1", "  0  □  ■",
        "y[-1, :, :]", "     0  1", "  0  □  □",
        "y[0, :, :]", "     0  1", "  0 [□] ■",
        "y[1, :, :]", "     0  1", "  0  □  □",
        "axis -3, from panel to panel: border wrap",
        "axis -2, downward: border wrap",
        "axis -1, to the right: border wrap",
    ]),
    beyond: ((2, 0), [
        "beyond(x, w=...)",
        "x", "     0  1", "  0 [■] □", "  1  □  ■",
        "axis -2, downward: constant with 7 before, keep after",
        "axis -1, to the right: border fill with 7",
    ]),
}  # fmt: skip


@npt.stencil(neighborhood=((-1, 1),))
def climbing(x, n=2):
    total, i = 0.0, 0
    while i < n and i < 3:
        total += x[i - 1]
        i += 1
    return total


def lines_of(picture):
    """The lines of a picture, and how many cells have each colour."""
    tree = ElementTree.fromstring(picture)
    texts = tree.iter("{http://www.w3.org/2000/svg}text")
    colours = [one.get("fill") for one in tree.iter("{http://www.w3.org/2000/svg}tspan")]
    lines = ["".join(one.itertext()).rstrip() for one in texts]
    return lines, (colours.count(BLUE), colours.count(ORANGE))


@pytest.mark.parametrize("stencil", PICTURES)
def test_a_picture_shows_what_is_read(stencil):
    lines, colours = lines_of(stencil._repr_svg_())
    assert (colours, lines) == PICTURES[stencil]


def test_what_has_no_picture_and_what_a_prompt_shows():
    lines, colours = lines_of(corners._repr_svg_())
    assert 'steep = laplace(x, boundary="nearest")' in lines
    assert colours == (1, 1)
    lines, colours = lines_of(npt.stencil(lambda x: x[-12:13].sum())._repr_svg_())
    # Of many offsets the first, the last and the point itself are told.
    assert lines[2].split() == ["-12", "0", "12"]
    assert (colours, lines[3].index("[■]")) == ((25, 0), 40)
    # What is read in a loop, at offsets that vary.
    assert lines_of(climbing._repr_svg_())[1] == (3, 0)
    assert picking._repr_svg_() is None
    assert npt.stencil(lambda x: x[-9:10, 0, 0].sum())._repr_svg_() is None
    assert repr(beyond) == "<stencil beyond(x, w=...)>"
    found = nine.bench(np.ones((30, 30), "uint8"), repeat=1)
    assert repr(found) == str(found)
    for text in (laplace.explain("uint8"), laplace.ir("uint8"), laplace.source("uint8")):
        assert repr(text) == str(text)
        assert pickle.loads(pickle.dumps(text)) == text
        assert "\n" in repr(text)
