"""The command line, run on real files."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import time
from importlib.metadata import entry_points

import numpy as np
import pytest
import tifffile
from PIL import Image
from scipy import ndimage

import ninepoint as npt

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


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    """Keep compiled kernels out of the user's cache."""
    before = os.environ.get("NINEPOINT_CACHE_DIR")
    os.environ["NINEPOINT_CACHE_DIR"] = str(tmp_path_factory.mktemp("cache"))
    yield
    if before is None:
        del os.environ["NINEPOINT_CACHE_DIR"]
    else:
        os.environ["NINEPOINT_CACHE_DIR"] = before


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder to work in, with kernels.py, three grey frames in grey/ and colour.png."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    # Other tests have a module of this name.
    monkeypatch.delitem(sys.modules, "kernels", raising=False)
    (tmp_path / "kernels.py").write_text(KERNELS)
    (tmp_path / "weights.py").write_text("SIDE = 1\n")
    (tmp_path / "grey").mkdir()
    for place, frame in zip((1, 2, 10), pixels((3, 12, 17)), strict=True):
        Image.fromarray(frame).save(tmp_path / "grey" / f"f{place}.png")
    Image.fromarray(pixels((9, 11, 3))).save(tmp_path / "colour.png")
    yield tmp_path
    for name in ("weights", "_ninepoint_kernel", "kernels"):
        sys.modules.pop(name, None)


def pixels(shape):
    return np.random.default_rng(5).integers(0, 256, shape, dtype=np.uint8)


def read(path):
    if path.suffix == ".tif":
        return tifffile.imread(path)
    return np.asarray(Image.open(path))


def refused(capsys, *arguments):
    """Give the words of a mistake in data or kernel."""
    assert main(arguments) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Traceback" not in captured.err
    return captured.err


def misused(capsys, *arguments):
    """Give the words of a mistake in the command line."""
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    return capsys.readouterr().err


def run(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "ninepoint", *arguments],
        capture_output=True, text=True, timeout=60, **options,
    )  # fmt: skip


# Images in, images out.


def test_folder_to_folder(here, capsys):
    assert main(["apply", "kernels.py:later", "grey", "out"]) == 0
    frames = pixels((3, 12, 17))
    for place, frame in enumerate(frames):
        got = read(here / "out" / f"{place:04d}.png")
        assert got.dtype == np.uint8
        np.testing.assert_array_equal(got[:-1], frame[1:])
        assert not got[-1].any()
    out = capsys.readouterr().out
    assert out.startswith("3 frames of 12 x 17 uint8 in ")
    assert out.endswith(" s: out/0000.png to 0002.png\n")


def test_the_bar_is_for_terminals_only(here, monkeypatch):
    pty = pytest.importorskip("pty", exc_type=ImportError)
    master, slave = pty.openpty()
    shown = ""
    with os.fdopen(slave, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        assert main(["apply", "kernels.py:later", "grey", "out"]) == 0
        # A terminal may hand it on in pieces.
        while select.select([master], [], [], 1)[0]:
            shown += os.read(master, 1000).decode()
    os.close(master)
    assert re.search(r"\[#{30}\] saving 3/3", shown)
    # What is shown last covers the bar, and the cursor stands where it began.
    assert re.search(r"\r +\r$", shown)


def test_files_that_the_shell_lists_are_counted_as_a_person_does(here):
    names = [f"grey/f{n}.png" for n in (1, 10, 2)]
    assert main(["apply", "kernels.py:later", *names, "out/{}.png", "--quiet"]) == 0
    for place, frame in enumerate(pixels((3, 12, 17))):
        np.testing.assert_array_equal(read(here / "out" / f"{place}.png")[:-1], frame[1:])


def test_pattern_to_one_tiff_keeps_floats(here):
    words = ["apply", "kernels:smooth", "grey/*.png", "all.tif", "--param", "weight=2.5"]
    assert main([*words, "--boundary", "wrap"]) == 0
    x = pixels((3, 12, 17)).astype("float64")
    expected = (np.roll(x, 1, 1) + np.roll(x, 1, 2) + 2.5 * x) / 4.5
    got = read(here / "all.tif")
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, expected, rtol=1e-14)


def test_dtype_and_overflow(here):
    words = ["apply", "kernels.py:smooth", "colour.png", "s.png"]
    assert main([*words, "--dtype", "uint8", "--overflow", "saturate"]) == 0
    assert read(here / "s.png").dtype == np.uint8


def test_colour_is_filtered_channel_by_channel(here):
    assert main(["apply", "median", "colour.png", "m.png", "--param", "size=3"]) == 0
    expected = ndimage.median_filter(pixels((9, 11, 3)), size=(3, 3, 1))
    np.testing.assert_array_equal(read(here / "m.png"), expected)


def test_colour_with_a_stencil(here):
    assert main(["apply", "kernels.py:Family.later", "colour.png", "m.png"]) == 0
    np.testing.assert_array_equal(read(here / "m.png")[:-1], pixels((9, 11, 3))[1:])


def test_filter_with_the_options_of_a_stencil(here):
    words = ["apply", "ninepoint.filters:sobel", "colour.png", "s.png", "--param", "axis=0"]
    assert main([*words, "--dtype", "uint8", "--overflow", "saturate", "--boundary", "nearest"])\
        == 0  # fmt: skip
    x = pixels((9, 11, 3)).astype(int)
    slopes = [ndimage.sobel(x[..., c], axis=0, mode="nearest") for c in range(3)]
    expected = np.clip(np.stack(slopes, -1), 0, 255)
    np.testing.assert_array_equal(read(here / "s.png"), expected)


def test_kernels_of_one_and_of_three_axes(here):
    x = pixels((3, 12, 17))
    assert main(["apply", "kernels.py:along", "grey", "a.tif"]) == 0
    np.testing.assert_array_equal(read(here / "a.tif")[..., :-1], x[..., 1:])
    assert main(["apply", "kernels.py:before", "grey", "b.tif", "--boundary", "valid"]) == 0
    np.testing.assert_array_equal(read(here / "b.tif"), x[:-1])


def test_a_function_of_numbers(here):
    way = ["apply", "kernels.py:inverted", "grey", "i.tif", "--dtype", "uint8"]
    assert main([*way, "--overflow", "saturate"]) == 0
    np.testing.assert_array_equal(read(here / "i.tif"), 255 - pixels((3, 12, 17)))


def test_one_of_several_results(here, capsys):
    assert "2 results; choose one with --result 0" in misused(
        capsys, "apply", "kernels.py:both", "grey", "b.tif"
    )
    assert main(["apply", "kernels.py:both", "grey", "b.tif", "--result", "1"]) == 0
    np.testing.assert_array_equal(read(here / "b.tif")[:, :-1], pixels((3, 12, 17))[:, 1:])
    assert "results 0 to 1" in misused(
        capsys, "apply", "kernels.py:both", "grey", "b.tif", "--result", "2"
    )


def test_a_border_for_each_side_and_its_value(here):
    words = ["apply", "kernels.py:later", "colour.png", "c.png", "--cval", "7"]
    assert main([*words, "--boundary", "nearest:constant,wrap"]) == 0
    assert (read(here / "c.png")[-1] == 7).all()


def test_resume_writes_what_is_missing(here, capsys):
    words = ["apply", "kernels.py:later", "grey", "out", "--resume", "--threads", "1"]
    assert main(words) == 0
    (here / "out" / "0001.png").unlink()
    stamp = (here / "out" / "0000.png").stat().st_mtime_ns
    capsys.readouterr()
    assert main(words) == 0
    assert capsys.readouterr().out.startswith("1 frame of 12 x 17")
    assert (here / "out" / "0000.png").stat().st_mtime_ns == stamp
    assert main(words) == 0
    assert capsys.readouterr().out.startswith("nothing to do: all of it is there, out/0000.png")


def test_a_store_part_by_part(here, capsys):
    zarr = pytest.importorskip("zarr")
    volume = np.arange(6 * 20 * 30, dtype="int32").reshape(6, 20, 30)
    zarr.save_array("volume.zarr", volume)
    words = ["apply", "kernels.py:smooth", "volume.zarr", "out.zarr", "--param", "weight=2"]
    words += ["--chunks", "2,10,10", "--shards", "2,20,-1"]
    assert main([*words, "--part", "2/2"]) == 0
    assert "incomplete" in zarr.open("out.zarr").attrs
    assert main([*words, "--part", "1/2"]) == 0
    out = zarr.open_array("out.zarr", mode="r")
    assert (out.chunks, out.shards) == ((2, 10, 10), (2, 20, 30))
    smooth = npt.stencil(lambda x: (x[-1, 0] + x[0, -1] + 2 * x[0, 0]) / 4, boundary="reflect")
    np.testing.assert_array_equal(out[:], smooth(volume))
    assert "units of 6 x 20 x 30 float64" in capsys.readouterr().out
    assert main([*words, "--resume"]) == 0
    assert "nothing to do" in capsys.readouterr().out
    assert main(words) == 1
    assert "out.zarr' exists" in capsys.readouterr().err
    assert main([*words[:3], "out.npy"]) == 0
    assert np.load("out.npy").shape == volume.shape


def test_quiet_says_nothing(here, capsys):
    assert main(["apply", "kernels.py:later", "grey", "out", "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")


# Mistakes in data and kernels: one line, code 1.


def test_a_format_that_cannot_hold_the_result(here, capsys):
    assert refused(capsys, "apply", "kernels.py:smooth", "grey", "out") == (
        "ninepoint: PNG cannot hold the kernel's float64 result; "
        "add --dtype uint8 --overflow saturate (of what lies elsewhere, scale it to 0..255 in the "
        "kernel), or write .tif files\n"
    )
    assert not (here / "out").exists()


def test_inputs_that_are_not_there(here, capsys):
    assert refused(capsys, "apply", "mean", "no.png", "o.png") == (
        "ninepoint: [Errno 2] No such file or directory: 'no.png'\n"
    )
    assert "no file matches 'no*.png'" in refused(capsys, "apply", "mean", "no*.png", "o.png")
    (here / "empty").mkdir()
    assert "the folder 'empty' holds no image" in refused(capsys, "apply", "mean", "empty", "o")
    assert "no PNG, JPEG or TIFF" in refused(capsys, "apply", "mean", "weights.py", "o")


def test_a_damaged_frame_leaves_the_others(here, capsys):
    whole = (here / "grey" / "f10.png").read_bytes()
    (here / "grey" / "f10.png").write_bytes(whole[: len(whole) // 2])
    words = refused(capsys, "apply", "kernels.py:later", "grey", "out", "--threads", "1")
    assert "cannot read frame 2 from grey/f10.png" in words
    assert words.count("\n") == 1
    # Which frames came before it is for the scheduler to say.
    assert {p.name for p in (here / "out").iterdir()} <= {"0000.png", "0001.png"}
    (here / "grey" / "f10.png").write_bytes(whole)
    assert main(["apply", "kernels.py:later", "grey", "out", "--resume", "--quiet"]) == 0
    assert len(list((here / "out").iterdir())) == 3


def test_files_that_may_not_be_replaced(here, capsys):
    (here / "o.png").write_bytes(b"mine")
    words = ("apply", "kernels.py:later", "colour.png", "o.png", "--no-overwrite")
    assert "o.png' exists" in refused(capsys, *words)
    assert (here / "o.png").read_bytes() == b"mine"
    assert "from which the array is still to be read" in misused(
        capsys, "apply", "kernels.py:later", "colour.png", "colour.png"
    )


def test_a_wrong_kernel_points_at_its_place(here, capsys):
    (here / "wrong.py").write_text(
        "import ninepoint as npt\n\n@npt.stencil\ndef f(x):\n    return x[0, 0] + nowhere\n"
    )
    words = refused(capsys, "apply", "wrong.py:f", "grey", "out")
    assert "line 5" in words
    assert "^" in words
    assert "Help:" in words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import ninepoint\n1 / 0\n", "line 2 of {}: ZeroDivisionError"),
        ("def f(x)\n", "SyntaxError"),
        ("import no_such_module\n", "line 1 of {}: ModuleNotFoundError"),
        ("import ninepoint as n\n@n.stencil(boundary='odd')\ndef f(x): return x[0]\n",
         "line 2 of {}: ValueError: unknown boundary"),
    ],
)  # fmt: skip
def test_a_kernel_file_that_fails(here, capsys, text, words):
    (here / "bad.py").write_text(text)
    said = refused(capsys, "apply", "bad.py:f", "grey", "out")
    assert said.startswith("ninepoint: bad.py cannot be imported: ")
    assert words.format(here / "bad.py") in said
    assert said.count("\n") == 1


def test_debug_shows_the_traceback(here, capsys):
    assert main(["apply", "mean", "no.png", "o.png", "--debug"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("Traceback")
    assert said.endswith("ninepoint: [Errno 2] No such file or directory: 'no.png'\n")


# Mistakes in the command line: code 2.


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["medain", "grey", "o"], "no ready-made filter 'medain'; did you mean median?"),
        (["no.py:f", "grey", "o"], "there is no file 'no.py'"),
        (["kernels.py:latre", "grey", "o"], "kernels.py has no 'latre'; it has smooth, later"),
        (["kernels.py:plain", "grey", "o"], "is no stencil; put @npt.stencil above it"),
        (["kernels.py:NUMBER", "grey", "o"], "is no stencil but int"),
        (["kernels.py", "grey", "o"], "holds several stencils; choose kernels.py:NAME"),
        (["weights.py", "grey", "o"], "weights.py holds no stencil"),
        ([":f", "grey", "o"], "not of the form file.py:name"),
        (["kernels.py:difference", "grey", "o"], "takes 2 fields (x, y), and there is one INPUT"),
        (["kernels.py:scaled", "grey", "o"], "scaled() needs a value for 'factor'"),
        (
            ["kernels.py:later", "grey", "o", "--param", "a=1"],
            "later() has no parameter 'a'",
        ),
        (["mean", "grey", "o", "--param", "sice=1"], "perhaps you mean size"),
        (["mean", "grey", "o", "--param", "size"], "not of the form name=value"),
        (["mean", "grey", "o", "--param", "size=a b"], "no value as Python writes it"),
        (["mean", "grey", "o", "--dtype", "uint9"], "--dtype uint9: there is no such type"),
        (["mean", "grey", "o", "--overflow", "wrap"], "always saturates"),
        (["mean", "grey", "o", "--result", "1"], "the kernel has one result"),
        (["mean", "grey", "o", "--threads", "0"], "--threads: threads=0 is less than 1"),
        (["mean", "grey"], "required: OUTPUT"),
        (
            ["kernels.py:later", "grey", "o", "--boundary", "odd"],
            "unknown boundary 'odd'; use one",
        ),
        (["median", "grey", "o", "--boundary", "odd"], "unknown boundary 'odd'; use one of"),
        (["mean", "grey", "o", "--param", "size=0"], "size holds 0; give at least 1"),
        (["mean", "grey", "o", "--param", "size='a'"], "no whole number"),
        (["mean", "grey", "o/{}{}.png"], "should hold one {}"),
        (["mean", "grey", "o/a.xyz"], "cannot tell the format"),
        (["mean", "grey", "o/{}.png", "--quality", "9"], "has no quality"),
        (["mean", "grey", "o", "--compression", "12"], "a level from 0 to 9"),
        (["kernels.py:later", "grey", "grey"], "among the files that the array is read from"),
        (["mean", "grey/f1.png", "grey/f2.png", "grey"], "among the files that the array is"),
    ],
)
def test_misuse(here, capsys, words, said):
    assert said in misused(capsys, "apply", *words)
    assert not (here / "o").exists()


# The other commands.


def test_the_only_stencil_of_a_file_needs_no_name(here, capsys):
    (here / "one.py").write_text(
        "import ninepoint as npt\n\n@npt.stencil\ndef f(x):\n    return x[0, 1] // 2\n"
    )
    assert main(["explain", "one.py", "--dtype", "uint8"]) == 0
    assert capsys.readouterr().out.startswith("f: x uint8 -> uint8\n")
    assert main(["explain", "one.py", "--ir"]) == 0
    assert "x[0, 1]" in capsys.readouterr().out
    assert main(["explain", "one.py:f", "--source", "--dtype", "int16"]) == 0
    compile(capsys.readouterr().out, "source", "exec")


def test_explain_a_filter_and_a_kernel_with_needs(here, capsys):
    assert main(["explain", "median"]) == 0
    out = capsys.readouterr().out
    assert "ranks.py, line " in out
    assert npt.filters.median.__doc__.split("\n")[0] in out
    assert main(["explain", "kernels.py:scaled", "--param", "factor=2.5"]) == 0
    assert "-> float64" in capsys.readouterr().out
    assert main(["explain", "kernels.py:difference", "--dtype", "u1", "--dtype", "i2"]) == 0
    assert "x uint8, y int16 -> " in capsys.readouterr().out


def test_explain_what_a_gpu_does(here, capsys):
    words = ("explain", "kernels.py:later", "--dtype", "uint8", "--device", "cuda")
    assert main([*words]) == 0
    assert capsys.readouterr().out.startswith("later: x uint8 -> uint8, on a GPU\n")
    assert main([*words, "--source"]) == 0
    assert "kernel_later(" in capsys.readouterr().out
    assert main(["explain", "median", "--device", "cuda"]) == 0
    assert "rank_filter: x float64 -> float64, on a GPU" in capsys.readouterr().out
    assert main(["explain", "median", "--source", "--device", "cuda"]) == 0
    assert "__global__ void" in capsys.readouterr().out


def test_explain_a_filter_with_options(here, capsys):
    assert main(["explain", "median", "--dtype", "uint8", "--param", "size=5"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("rank_filter: x uint8 -> uint8\n")
    assert "-2..2 x -2..2" in out
    assert main(["explain", "unsharp", "--dtype", "uint8"]) == 0
    assert capsys.readouterr().out.startswith("unsharp: x uint8 -> uint8\n")
    assert main(["explain", "sobel", "--source", "--dtype", "int16"]) == 0
    compile(capsys.readouterr().out, "source", "exec")
    assert main(["explain", "mean", "--ir"]) == 0
    assert "x[" in capsys.readouterr().out
    assert "has no option 'sice'" in misused(capsys, "explain", "median", "--param", "sice=5")
    assert "size holds 0; give at least 1" in misused(
        capsys, "explain", "median", "--param", "size=0"
    )
    words = ("explain", "median", "--dtype", "u1", "--dtype", "u1")
    assert "takes one image" in misused(capsys, *words)


@pytest.mark.parametrize("words", ["info", "--help", "explain median", "cache"])
def test_output_that_nobody_reads_to_its_end(here, words):
    process = subprocess.Popen(
        [sys.executable, "-m", "ninepoint", *words.split()],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        process.stdout.close()
        said = process.stderr.read()
    assert (process.returncode, said) == (0, "")


def test_what_a_file_loses_is_said_in_a_line(here, capfd):
    frames = np.zeros((2, 3, 8, 9), np.uint8)
    tifffile.imwrite(here / "a.ome.tif", frames, metadata={"axes": "TCYX"})
    done = run("apply", "kernels.py:later", "a.ome.tif", "out", "--quiet")
    assert done.returncode == 0
    assert done.stderr.startswith(
        "ninepoint: warning: a.ome.tif is OME-TIFF with the axes T=2, C=3"
    )
    assert done.stderr.count("\n") == 1


def test_a_hint_for_floats_is_right(here, capsys):
    tifffile.imwrite(here / "f.tif", np.random.default_rng(0).random((9, 9)).astype("f4"))
    said = refused(capsys, "apply", "mean", "f.tif", "out.png")
    assert "scale it to 0..255" in said


def test_info_names_what_a_report_needs(here, capsys):
    assert main(["info"]) == 0
    lines = capsys.readouterr().out.splitlines()
    facts = {line.split(maxsplit=1)[0]: line.split(maxsplit=1)[1] for line in lines}
    assert facts["ninepoint"].startswith(npt.__version__)
    assert facts["numpy"] == np.__version__
    assert facts["GPU"].startswith("not used: ") or "compute capability" in facts["GPU"]
    assert facts["cache"].startswith(os.environ["NINEPOINT_CACHE_DIR"])
    assert {"Python", "numba", "llvmlite", "dask", "system", "processor", "vectors", "memory",
            "cores", "threads", "GPU", "settings"} <= facts.keys()  # fmt: skip


def test_cache_is_shown_and_cleared(here, capsys, monkeypatch):
    monkeypatch.setenv("NINEPOINT_CACHE_DIR", str(here / "cache"))
    (here / "cache").mkdir()
    (here / "cache" / f"kernel_{'0a' * 12}.py").write_text("x = 1\n")
    (here / "cache" / "mine.py").write_text("y = 2\n")
    assert main(["cache"]) == 0
    assert capsys.readouterr().out == f"{here / 'cache'}: 2 files, 12 B\n"
    assert main(["cache", "--clear"]) == 0
    assert capsys.readouterr().out == f"removed 1 files, 6 B, from {here / 'cache'}\n"
    assert [file.name for file in here.glob("cache/*")] == ["mine.py"]


# As a process.


def test_help_has_examples_and_loads_nothing_heavy():
    code = """
import runpy, sys
sys.argv[1:] = ["apply", "--help"]
try:
    runpy.run_module("ninepoint", None, "__main__")
except SystemExit as end:
    print(end.code, *{"numba", "dask", "PIL", "rich"} & {*sys.modules})
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "ninepoint apply gaussian photo.jpg soft.png" in ran.stdout
    assert ran.stdout.endswith("\n0\n")


def test_exit_codes_and_streams_of_a_process(here):
    good = run("apply", "kernels.py:later", "grey", "out")
    assert (good.returncode, good.stderr) == (0, "")
    bad = run("apply", "kernels.py:later", "no.png", "out")
    assert (bad.returncode, bad.stdout) == (1, "")
    assert bad.stderr == "ninepoint: [Errno 2] No such file or directory: 'no.png'\n"
    assert run("--version").stdout == f"ninepoint {npt.__version__}\n"


@pytest.mark.nightly
def test_an_interrupt_leaves_whole_files_and_resume_goes_on(here):
    frames = np.random.default_rng(1).integers(0, 256, (100, 500, 500), dtype=np.uint8)
    tifffile.imwrite(here / "long.tif", frames, photometric="minisblack")
    words = ["apply", "kernels.py:later", "long.tif", "out/{:03d}.png", "--threads", "1"]
    process = subprocess.Popen(
        [sys.executable, "-m", "ninepoint", *words],
        stderr=subprocess.PIPE,
        text=True,
        # What a shell runs in the background ignores interrupts, and so would what it starts.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    until = time.monotonic() + 30
    while len(list(here.glob("out/*.png"))) < 4:
        assert time.monotonic() < until
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130, said
    assert said.startswith("ninepoint: interrupted\n")
    assert "--resume" in said
    names = sorted(p.name for p in (here / "out").iterdir())
    assert 4 <= len(names) < 100
    assert all(name.endswith(".png") for name in names)
    assert main([*words, "--resume", "--quiet"]) == 0
    for place, frame in enumerate(frames):
        np.testing.assert_array_equal(read(here / "out" / f"{place:03d}.png")[:-1], frame[1:])
