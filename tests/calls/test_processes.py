"""Processes and threads: a stencil goes anywhere; what takes long there says so."""

import copy
import importlib
import pickle
import subprocess
import sys
import textwrap
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal as equal

import kernels
import ninepoint as npt
from compared import refuses
from own_process import printed
from seams import limits

X = np.arange(42, dtype="int16").reshape(6, 7)


def run(folder: Path, script: str) -> str:
    """What a script of its own prints."""
    file = folder / "script.py"
    file.write_text(textwrap.dedent(script))
    return printed("-W", "error", file)


def test_only_what_is_used_is_imported(tmp_path):
    """A client that only builds a graph, while others compile, needs no Numba."""
    script = """
        import sys
        import ninepoint as npt

        others = {"numba", "dask", "xarray", "PIL", "tifffile", "rich"}
        assert not {*others, "numpy"} & set(sys.modules)
        assert set(npt.__all__) <= set(dir(npt))

        @npt.stencil
        def right(x):
            return x[0, 1]

        @npt.ufunc
        def twice(x):
            return x + x

        assert not others & set(sys.modules)
        print(right, npt.stencil is npt.stencil, issubclass(npt.StencilError, Exception))

        import numpy as np

        image = np.arange(12.0).reshape(3, 4)
        print(right(image).sum(), twice(image).sum(), npt.filters.median(image, size=3).sum())
        assert not others & set(sys.modules)

        import dask.array as da

        lazy = right(da.ones((1000000, 1000, 1000), chunks=("auto", -1, -1), dtype="int8"))
        print(lazy.dtype, lazy.shape, "numba" in sys.modules)
    """
    assert run(tmp_path, script).splitlines() == [
        "<stencil right(x)> True True",
        "54.0 132.0 66.0",
        "int8 (1000000, 1000, 1000) False",
    ]


def test_a_pickle_is_the_same_stencil():
    @npt.stencil
    def kernel(x, *, gain: float = 2.0):
        return x[0, 1] * gain

    text = pickle.dumps(kernel)
    assert pickle.loads(text) is kernel
    equal(copy.deepcopy(kernel)(X), kernel(X))
    assert kernel.parameters == ("x", "gain")
    assert kernel.fields == ("x",)
    assert kernel.scalars == ("gain",)
    assert dict(kernel.defaults) == {"gain": 2.0}
    for name in ("parameters", "fields", "scalars", "defaults"):
        refuses(AttributeError, "", setattr, kernel, name, ())


def test_threads_that_race_for_the_first_call(tmp_path, monkeypatch):
    """One of them compiles, and all get what it made."""
    monkeypatch.setenv("NINEPOINT_CACHE_DIR", str(tmp_path))

    @npt.stencil(boundary="nearest")
    def kernel(x):
        return x[-1, 0] * 5 - x[0, 1] // 3 + x[2, 2]

    gate = threading.Barrier(8)

    def work(_):
        gate.wait()
        return kernel(X)

    with ThreadPoolExecutor(8) as pool:
        for result in pool.map(work, range(8)):
            equal(result, kernel.debug(X))
    assert len(list(tmp_path.glob("kernel_*.o"))) == 1


def test_memory_stays_flat_over_many_calls(tmp_path):
    """In a process of its own, where nothing else takes memory meanwhile."""
    script = """
        import gc
        import tracemalloc
        from pathlib import Path

        import numpy as np
        import ninepoint as npt

        @npt.stencil(boundary="reflect")
        def kernel(x, gain=1):
            return x[-1, 0] + gain * x[1, 1]

        image = np.zeros((64, 64), "uint8")

        def taken(count):
            for gain in range(count):
                kernel(image, gain=gain)
                kernel(image, gain=gain + 0.5, boundary="valid")
            gc.collect()
            status = Path("/proc/self/statm")
            resident = int(status.read_text().split()[1]) * 4096 if status.exists() else 0
            return tracemalloc.get_traced_memory()[0], resident

        _, before = taken(50)
        tracemalloc.start()
        first, _ = taken(50)
        second, after = taken(500)
        print(second - first < 50_000, after - before < 4_000_000)
    """
    assert run(tmp_path, script) == "True True"


PROGRAM = """
import pickle, sys, warnings
warnings.simplefilter("error")
stencil = pickle.loads(sys.stdin.buffer.read())
import numpy as np
print(stencil(np.arange(4.0)))
"""


def loaded(tmp_path: Any, name: str, source: str) -> Any:
    """The function of this name in a module of its own."""
    (tmp_path / f"{name}.py").write_text("import numpy as np\nimport ninepoint as npt\n" + source)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(tmp_path)
        return getattr(importlib.import_module(name), name)


def fresh(text: str, tmp_path: Any, name: str) -> Any:
    """A stencil that no other test has."""
    return loaded(tmp_path, name, f"\n\n@npt.stencil\ndef {name}(x):\n{text}")


PICKED = "    w = x[-1:2]\n    k = w[w > x[0]].size\n    return k\n"


def test_a_slow_kernel_says_so_once(tmp_path: Any) -> None:
    stencil = fresh(PICKED, tmp_path, "slow_once")
    x = np.arange(4.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stencil.explain("float64")
        stencil.source("float64")
        stencil.debug(x)
    with pytest.warns(npt.PerformanceWarning) as found:
        stencil(x)
    (one,) = found
    assert one.filename == __file__
    for words in (
        "'slow_once' holds an element of a window at an index that varies",
        "line 8",
        "k = w[w > x[0]].size",
        "about 5 to 500 times as long",
        "Help: Say which elements count with where=",
        "@npt.stencil(performance_warnings=False)",
    ):
        assert words in str(one.message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stencil(x)
        stencil(x, boundary="wrap")
        stencil(x.astype("float32"))


def test_it_is_raised_as_often_as_asked_for_and_said_of_stages_too(
    tmp_path: Any,
) -> None:
    stencil, x = fresh(PICKED, tmp_path, "slow_error"), np.arange(4.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            refuses(npt.PerformanceWarning, "", stencil, x)
        npt.stencil(performance_warnings=False)(stencil.__wrapped__)(x)
        # What is understood says nothing.
        fresh("    return np.nanmean(x[-1:2])\n", tmp_path, "quick_one")(x)
        warnings.simplefilter("ignore", npt.PerformanceWarning)
        stencil(x)
    x, text = np.arange(4.0), PICKED.replace("return k", "return k * 1.0")
    names = ("slow_steps", "slow_lazy", "slow_inner")
    steps, lazy, _ = (fresh(text, tmp_path, name) for name in names)
    source = "from slow_inner import slow_inner\n\n\n@npt.stencil\ndef slow_stage(x):\n"
    staged = loaded(tmp_path, "slow_stage", source + "    return slow_inner(x)[1]\n")
    for name, call in (
        ("slow_steps", lambda: steps.iterate(x, steps=2)),
        ("slow_lazy", lambda: npt.compute(lazy(npt.lazy(x)))),
        ("slow_inner", lambda: staged(x)),
    ):
        with pytest.warns(npt.PerformanceWarning, match=f"'{name}'") as found:
            call()
        assert len(found) == 1


def test_workers_say_nothing(tmp_path: Any) -> None:
    da = pytest.importorskip("dask.array")
    stencil = fresh(PICKED, tmp_path, "slow_chunks")
    with pytest.warns(npt.PerformanceWarning) as found:
        lazy = stencil(da.arange(40.0, chunks=10))
    assert len(found) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lazy.compute(scheduler="threads")
    sent = pickle.dumps(stencil)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], input=sent, capture_output=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode().split() == ["[0", "1", "1", "0]"]
    assert not done.stderr


def test_a_long_compilation_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Any
) -> None:
    monkeypatch.setenv("NINEPOINT_CACHE_DIR", str(tmp_path))

    def compiled(name: str, quiet: str, seconds: float) -> None:
        monkeypatch.setenv("NINEPOINT_QUIET", quiet)
        source = f"def {name}(x):\n    return np.median(x[-2:3, -2:3]) * {len(name)}\n"
        function = kernels.compiled("import numpy as np\n" + source, name)
        with limits(announced_seconds=seconds):
            npt.stencil(function)(np.zeros((9, 9), "float32"))

    compiled("quick_of_test", "", 600.0)
    compiled("quiet_median_of_test", "1", 0.01)
    compiled("median_of_test", "", 0.01)
    said = "ninepoint: compiling 'median_of_test' for float32 ..., which is kept on disk "
    assert capsys.readouterr().err == said + "for other runs\n"
