"""The command line, run on real files."""

import importlib
import os
import re
import select
import subprocess
import sys
from importlib.metadata import entry_points

import numpy as np
import pytest
import tifffile
from PIL import Image
from scipy import ndimage

import ninepoint as npt
from compared import refuses
from own_process import printed

# The command as it is installed.
(command,) = entry_points(group="console_scripts", name="ninepoint")
main = command.load()

KERNELS = """\
import ninepoint as npt
from weights import SIDE

@npt.stencil(boundary="reflect")
def smooth(x, weight=1):
    return (x[-1, 0] + SIDE * x[0, -1] + weight * x[0, 0]) / (2 + weight)

@npt.stencil
def later(x):
    return x[1, 0]

@npt.stencil
def before(x):
    return x[-1, 0, 0]

@npt.stencil
def along(x):
    return x[1]

@npt.stencil
def both(x):
    return x[0, 1], x[1, 0]

@npt.stencil
def scaled(x, factor):
    return x[0, 0] * factor

@npt.stencil
def difference(x, y):
    return x[0, 0] - y[0, 0]

class Family:
    later = later

def plain(x):
    return x[0, 0]

NUMBER = 5

@npt.ufunc
def inverted(x, *, most=255):
    return most - x
"""
ONE = "import ninepoint as npt\n\n@npt.stencil\ndef f(x):\n    return x[0, 1] // 2\n"
WRONG = ONE.replace("// 2", "+ nowhere")


def pixels(shape):
    return np.random.default_rng(5).integers(0, 256, shape, dtype=np.uint8)


GREY, COLOUR = pixels((3, 12, 17)), pixels((9, 11, 3))


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder to work in, with kernels.py, three grey frames in grey/ and colour.png."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    # Other tests have a module of this name.
    monkeypatch.delitem(sys.modules, "kernels", raising=False)
    files = {"kernels": KERNELS, "weights": "SIDE = 1\n", "one": ONE, "wrong": WRONG}
    for name, text in files.items():
        (tmp_path / f"{name}.py").write_text(text)
    (tmp_path / "grey").mkdir()
    for place, frame in zip((1, 2, 10), GREY, strict=True):
        Image.fromarray(frame).save(tmp_path / "grey" / f"f{place}.png")
    Image.fromarray(COLOUR).save(tmp_path / "colour.png")
    yield tmp_path
    for name in ("weights", "_ninepoint_kernel", "kernels"):
        sys.modules.pop(name, None)


def read(path):
    return tifffile.imread(path) if path.suffix == ".tif" else np.asarray(Image.open(path))


def refused(capsys, words):
    """Give the words of a mistake in data or kernel."""
    assert main(words.split()) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Traceback" not in captured.err
    return captured.err


def misused(capsys, words):
    """Give the words of a mistake in the command line."""
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 2
    return capsys.readouterr().err


def run(*arguments):
    words = [sys.executable, "-m", "ninepoint", *arguments]
    return subprocess.run(words, capture_output=True, text=True, timeout=60)


def later(x, beyond=0):
    return np.concatenate([x[..., 1:, :], np.full_like(x[..., :1, :], beyond)], axis=-2)


def smoothed():
    x = GREY.astype("float64")
    return (np.roll(x, 1, 1) + np.roll(x, 1, 2) + 2.5 * x) / 4.5


def slopes():
    x = COLOUR.astype(int)
    found = [ndimage.sobel(x[..., c], axis=0, mode="nearest") for c in range(3)]
    return np.clip(np.stack(found, -1), 0, 255)


BYTES = "--dtype uint8 --overflow saturate"
APPLIED = {
    "kernels.py:later grey/f1.png grey/f10.png grey/f2.png o.tif": lambda: later(GREY),
    "kernels:smooth grey/*.png o.tif --param weight=2.5 --boundary wrap": smoothed,
    "kernels.py:along grey o.tif": lambda: np.pad(GREY[..., 1:], [(0, 0), (0, 0), (0, 1)]),
    "kernels.py:before grey o.tif --boundary valid": lambda: GREY[:-1],
    f"kernels.py:inverted grey o.tif {BYTES}": lambda: 255 - GREY,
    "kernels.py:both grey o.tif --result 1": lambda: later(GREY),
    "median colour.png o.png --param size=3": lambda: ndimage.median_filter(COLOUR, (3, 3, 1)),
    "kernels.py:Family.later colour.png o.png --cval 7 --boundary nearest:constant,wrap":
        lambda: np.moveaxis(later(np.moveaxis(COLOUR, -1, 0), 7), 0, -1),
    f"ninepoint.filters:sobel colour.png o.png --param axis=0 --boundary nearest {BYTES}": slopes,
}  # fmt: skip


@pytest.mark.parametrize("words", APPLIED)
def test_images_are_filtered_as_arrays_are(here, capsys, words):
    wanted = APPLIED[words]()
    assert main(["apply", *words.split(), "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    got = read(next(here.glob("o.*")))
    assert got.dtype == ("uint8" if wanted.dtype.kind == "i" else wanted.dtype)
    np.testing.assert_allclose(got, wanted, rtol=1e-14)


def test_folder_to_folder_and_resume(here, capsys):
    words = ["apply", "kernels.py:later", "grey", "out", "--resume", "--threads", "1"]
    assert main(words) == 0
    paths = [here / "out" / f"f{place}.png" for place in (1, 2, 10)]
    np.testing.assert_array_equal([read(path) for path in paths], later(GREY))
    out = capsys.readouterr().out
    assert out.startswith("3 frames in ")
    assert out.endswith(" s: out/f1.png to f10.png\n")
    paths[1].unlink()
    stamp = paths[0].stat().st_mtime_ns
    assert main(words) == 0
    assert capsys.readouterr().out.startswith("1 frame in ")
    assert paths[0].stat().st_mtime_ns == stamp
    assert main(words) == 0
    assert capsys.readouterr().out.startswith("nothing to do: all of it is there, out/f1.png")


def test_names_formats_sizes_and_axes_are_those_of_the_files(here, capsys):
    shapes = {"b.jpg": (20, 30, 3), "a.png": (12, 17), "tall.tif": (30, 20), "s.tif": (4, 12, 17)}
    for name, shape in shapes.items():
        npt.imsave(pixels(shape), here / "mixed" / name)
    assert main(["apply", "kernels.py:later", "mixed", "grey", "out"]) == 0
    assert capsys.readouterr().out.startswith("10 frames in ")
    for path in (*(here / "mixed").iterdir(), *(here / "grey").iterdir()):
        # Of noise a JPEG keeps little.
        wanted, most = npt.imread(path).compute(), 255 if path.suffix == ".jpg" else 0
        wanted = later(wanted) if wanted.ndim == 3 else later(np.moveaxis(wanted, -1, 0))
        found = npt.imread(here / "out" / path.name).compute()
        found = found if found.ndim == 3 else np.moveaxis(found, -1, 0)
        assert abs(wanted.astype(int) - found)[..., :-1, :].max() <= most
    assert main(["apply", "kernels.py:later", "mixed", "new/{stem}_{:02d}.tif", "--quiet"]) == 0
    assert {"s_03.tif", "tall_00.tif"} <= {path.name for path in (here / "new").iterdir()}
    npt.save(GREY, here / "grey.npy")
    assert main(["apply", "kernels.py:later", "grey.npy", "stores/{stem}.zarr", "--quiet"]) == 0
    np.testing.assert_array_equal(npt.open(here / "stores" / "grey.zarr"), later(GREY))
    npt.imsave(pixels((5, 5)), here / "other" / "a.png")
    said = misused(capsys, ["apply", "mean", "mixed", "other", "new/{name}.png"])
    assert "several files of INPUT have the same name" in said
    tifffile.imwrite(here / "a.ome.tif", np.stack([GREY, GREY]), metadata={"axes": "TCYX"})
    assert main(["apply", "kernels.py:later", "a.ome.tif", "o.ome.tif", "--quiet"]) == 0
    assert npt.open("o.ome.tif").dims == ("t", "c", "y", "x")


def test_the_bar_is_for_terminals_only(here, monkeypatch):
    pty = pytest.importorskip("pty", exc_type=ImportError)
    master, slave = pty.openpty()
    importlib.import_module("termios").tcsetwinsize(slave, (24, 80))
    shown = ""
    with os.fdopen(slave, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        assert main(["apply", "kernels.py:later", "grey", "out"]) == 0
        # A terminal may hand it on in pieces.
        while select.select([master], [], [], 0.3)[0]:
            shown += os.read(master, 1000).decode()
    os.close(master)
    assert "saving:" in shown
    # What is shown last covers the bar, and the cursor stands where it began.
    assert re.search(r"\r +\r$", shown)


def test_a_store_part_by_part(here, capsys):
    zarr = pytest.importorskip("zarr")
    volume = np.arange(6 * 20 * 30, dtype="int32").reshape(6, 20, 30)
    zarr.save_array("volume.zarr", volume)
    words = ["apply", "kernels.py:smooth", "volume.zarr", "out.zarr", "--param", "weight=2"]
    words += ["--chunks", "2,10,10", "--shards", "2,20,-1"]
    assert main([*words, "--part", "2/2"]) == 0
    assert "incomplete" in zarr.open("out.zarr").attrs
    assert main([*words, "--part", "1/2"]) == 0
    assert " units in " in capsys.readouterr().out
    out = zarr.open_array("out.zarr", mode="r")
    assert (out.chunks, out.shards) == ((2, 10, 10), (2, 20, 30))
    smooth = npt.stencil(lambda x: (x[-1, 0] + x[0, -1] + 2 * x[0, 0]) / 4, boundary="reflect")
    np.testing.assert_array_equal(out[:], smooth(volume))
    assert main([*words, "--resume"]) == 0
    assert "nothing to do" in capsys.readouterr().out


# Mistakes in data and kernels: one line, code 1.
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("kernels.py:smooth grey o", "ninepoint: PNG cannot hold the kernel's float64 result; add "
         "--dtype uint8 --overflow saturate (of what lies elsewhere, scale it to 0..255 in the "
         "kernel), or write .tif files\n"),
        ("mean no.png o", "ninepoint: [Errno 2] No such file or directory: 'no.png'\n"),
        ("mean no*.png o", "no file matches 'no*.png'"),
        ("mean o.empty o", "the folder 'o.empty' holds no image"),
        ("mean weights.py o", "no PNG, JPEG or TIFF"),
        ("mean f.tif o/a.png", "scale it to 0..255"),
        ("kernels.py:later colour.png f.tif", "f.tif' exists"),
        ("bad.py:f grey o", "ninepoint: bad.py cannot be imported: line 2 of HERE/bad.py: "
         "ZeroDivisionError"),
        ("syntax.py:f grey o", "SyntaxError"),
        ("odd.py:f grey o", "line 3 of HERE/odd.py: ValueError: unknown boundary"),
    ],
)  # fmt: skip
def test_a_mistake_in_data_or_kernel_is_one_line(here, capsys, words, said):
    (here / "o.empty").mkdir()
    tifffile.imwrite(here / "f.tif", np.random.default_rng(0).random((9, 9)).astype("f4"))
    (here / "bad.py").write_text("import ninepoint\n1 / 0\n")
    (here / "syntax.py").write_text("def f(x)\n")
    (here / "odd.py").write_text(ONE.replace("stencil", "stencil(boundary='odd')"))
    found = refused(capsys, f"apply {words}").replace(str(here), "HERE")
    assert said in found
    assert found.count("\n") == 1
    assert not (here / "o").exists()


def test_a_wrong_kernel_points_at_its_place_and_an_interrupt_has_a_code(here, capsys):
    said = refused(capsys, "apply wrong.py:f grey out")
    assert [word for word in ("line 5", "^", "Help:") if word not in said] == []
    assert main("apply mean no.png o.png --debug".split()) == 1
    said = capsys.readouterr().err
    assert said.startswith("Traceback")
    assert said.endswith("ninepoint: [Errno 2] No such file or directory: 'no.png'\n")
    (here / "stop.py").write_text("raise KeyboardInterrupt\n")
    assert main("apply stop.py:f grey out".split()) == 130
    said = capsys.readouterr().err
    assert said.startswith("ninepoint: interrupted\n")
    assert "--resume" in said


# Mistakes in the command line: code 2.
@pytest.mark.parametrize(("words", "said"), [
    ("medain grey o", "no ready-made filter 'medain'; did you mean median?"),
    ("no.py:f grey o", "there is no file 'no.py'"),
    ("kernels.py:latre grey o", "kernels.py has no 'latre'; it has smooth, later"),
    ("kernels.py:plain grey o", "is no stencil; put @npt.stencil above it"),
    ("kernels.py:NUMBER grey o", "is no stencil but int"),
    ("kernels.py grey o", "holds several stencils; choose kernels.py:NAME"),
    ("weights.py grey o", "weights.py holds no stencil"),
    (":f grey o", "not of the form file.py:name"),
    ("kernels.py:difference grey o", "takes 2 fields (x, y), and there is one INPUT"),
    ("kernels.py:scaled grey o", "scaled() missing 1 required positional argument: 'factor'"),
    ("kernels.py:later grey o --param a=1", "later() has no parameter 'a'"),
    ("kernels.py:both grey o", "2 results; choose one with --result 0"),
    ("kernels.py:both grey o --result 2", "results 0 to 1"),
    ("mean grey o --result 1", "the kernel has one result"),
    ("mean grey o --param sice=1", "perhaps you mean size"),
    ("mean grey o --param size", "not of the form name=value"),
    ("mean grey o --param size=a,b(", "no value as Python writes it"),
    ("mean grey o --param size=0", "size holds 0; give at least 1"),
    ("mean grey o --dtype uint9", "--dtype: uint9: there is no such type"),
    ("mean grey o --overflow wrap", "always saturates"),
    ("mean grey o --threads 0", "--threads: threads=0 is less than 1"),
    ("mean grey", "required: OUTPUT"),
    ("kernels.py:later grey o --boundary odd", "unknown boundary 'odd'; use one"),
    ("mean grey o/a.xyz", "cannot tell the format"),
    ("mean grey o/{}.png --quality 9", "has no quality"),
    ("kernels.py:later grey grey", "from which the array is still to be read"),
    ("mean grey/f1.png grey/f2.png grey/{stem}.tif", "among the files that the array is"),
    ("mean colour.png colour.png", "from which the array is still to be read"),
])  # fmt: skip
def test_misuse(here, capsys, words, said):
    assert said in misused(capsys, ["apply", *words.split()])
    assert not (here / "o").exists()


@pytest.mark.parametrize(("words", "shown"), [
    ("one.py --dtype uint8", ["f: x uint8 -> uint8\n"]),
    ("one.py --ir", ["x[0, 1]"]),
    ("median", ["windows.py, line ", npt.filters.median.__doc__.split("\n")[0]]),
    ("white_tophat --dtype uint8", ["white_tophat: x uint8, y uint8 -> uint8\n"]),
    ("median --dtype uint8 --param size=5", ["median: x uint8 -> uint8\n",
                                             "-2..2 x -2..2"]),
    ("kernels.py:difference --dtype u1 --dtype i2", ["x uint8, y int16 -> "]),
    ("kernels.py:later --dtype uint8 --device cuda", ["later: x uint8 -> uint8, on a GPU\n"]),
    ("kernels.py:later --device cuda --source", ["kernel_later("]),
    ("median --device cuda --source", ["__global__ void"]),
])  # fmt: skip
def test_explain(here, capsys, words, shown):
    assert main(["explain", *words.split()]) == 0
    out = capsys.readouterr().out
    assert [word for word in shown if word not in out] == []


def test_explain_gives_source_and_refuses_and_filters_are_listed(here, capsys):
    for words in ("one.py:f", "sobel"):
        assert main(["explain", *words.split(), "--source", "--dtype", "int16"]) == 0
        compile(capsys.readouterr().out, "source", "exec")
    for words, said in (("--param sice=5", "has no option 'sice'"),
                        ("--dtype u1 --dtype u1", "takes one image")):  # fmt: skip
        assert said in misused(capsys, ["explain", "median", *words.split()])
    assert main(["filters"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == npt.filters.__all__
    assert all(line.endswith(".") for line in lines)


def test_info_names_what_a_report_needs_and_the_cache_is_cleared(here, capsys, monkeypatch):
    assert main(["info"]) == 0
    lines = capsys.readouterr().out.splitlines()
    facts = {line.split(maxsplit=1)[0]: line.split(maxsplit=1)[1] for line in lines}
    assert facts["ninepoint"].startswith(npt.__version__)
    assert facts["numpy"] == np.__version__
    assert facts["GPU"].startswith("not used: ") or "compute capability" in facts["GPU"]
    assert facts["cache"].startswith(os.environ["NINEPOINT_CACHE_DIR"])
    assert {"Python", "numba", "llvmlite", "dask", "system", "processor", "vectors", "memory",
            "cores", "threads", "GPU", "settings"} <= facts.keys()  # fmt: skip
    cache = here / "cache"
    monkeypatch.setenv("NINEPOINT_CACHE_DIR", str(cache))
    cache.mkdir()
    (cache / f"kernel_{'0a' * 12}.py").write_text("x = 1\n")
    (cache / "mine.py").write_text("y = 2\n")
    assert main(["cache"]) == 0
    assert capsys.readouterr().out == f"{cache}: 2 files, 12 B\n"
    assert main(["cache", "--clear"]) == 0
    assert capsys.readouterr().out == f"removed 1 files, 6 B, from {cache}\n"
    assert [file.name for file in cache.iterdir()] == ["mine.py"]
    (cache / "mine.py").unlink()
    for _ in range(2):
        assert main(["cache", "--clear"]) == 0
        assert not cache.exists()


def test_help_has_examples_and_loads_nothing_heavy():
    code = """
import runpy, sys
import ninepoint.io.opening, ninepoint.io.saving
sys.argv[1:] = ["apply", "--help"]
try:
    runpy.run_module("ninepoint", None, "__main__")
except SystemExit as end:
    print(end.code, *{"numba", "dask", "PIL", "tifffile", "rich"} & {*sys.modules})
"""
    said = printed("-c", code)
    assert "ninepoint apply gaussian photo.jpg soft.png" in said
    assert said.endswith("\n0")


def test_exit_codes_and_streams_of_a_process_also_if_nobody_reads_to_the_end(here, capsys):
    tifffile.imwrite(here / "a.ome.tif", np.stack([GREY, GREY]), metadata={"axes": "TCYX"})
    good = run(
        "apply", "kernels.py:later", "a.ome.tif", "grey/f1.png", "out/{:02d}.png", "--quiet"
    )
    assert (good.returncode, good.stdout) == (0, "")
    assert good.stderr.startswith("ninepoint: warning: a.ome.tif is OME-TIFF with the axes")
    assert good.stderr.count("\n") == 1
    bad = run("apply", "kernels.py:later", "no.png", "out")
    assert (bad.returncode, bad.stdout) == (1, "")
    assert bad.stderr == "ninepoint: [Errno 2] No such file or directory: 'no.png'\n"
    refuses(SystemExit, "", main, ["--version"])
    assert capsys.readouterr().out == f"ninepoint {npt.__version__}\n"
    process = subprocess.Popen(
        [sys.executable, "-m", "ninepoint", "explain", "median"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    with process:
        process.stdout.close()
        said = process.stderr.read()
    assert (process.returncode, said) == (0, "")
