"""Processes and threads: a stencil goes anywhere, and may be used from everywhere at once."""

import copy
import pickle
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal as equal

import ninepoint as npt
from own_process import printed

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
        with pytest.raises(AttributeError):
            setattr(kernel, name, ())


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
