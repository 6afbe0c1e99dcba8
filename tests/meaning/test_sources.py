"""A kernel is found wherever Python lets one write it, and keeps what its names meant."""

from __future__ import annotations

import contextlib
import functools
import linecache
import os
import pickle
import re
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import ninepoint as npt
from compared import by_text, refuses
from own_process import printed

X = np.array([1, 2, 4, 8])
DIFFERENCE = [0, 3, 6, 0]  # x[1] - x[-1] of X, with nothing beyond the border
SMOOTH = "def smooth(x):\n    return x[1] - x[-1]\n"
WEIGHT = 3


def run(smooth):
    """Run the kernel itself, point by point: no compiling is needed to see what was found."""
    return smooth.debug(X).tolist()


def ran(program, folder):
    """What a program prints in a new process."""
    (folder / "program.py").write_text(textwrap.dedent(program))
    return printed(folder / "program.py")


def imported(folder, monkeypatch, text):
    """The function `smooth` of a new module with this text, and the module's file."""
    name = "kernels_of_a_test"
    file = folder / f"{name}.py"
    file.write_text(text)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, name, raising=False)
    return __import__(name).smooth, file


def from_text(text, name="<written>"):
    """What a text defines as `f`, which `linecache` knows."""
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    names = {}
    exec(compile(text, name, "exec"), names)
    return names["f"]


in_module = npt.stencil(lambda x: x[1] - x[-1])


class Filters:
    in_class = npt.stencil(lambda x: x[1] - x[-1])

    @staticmethod
    @npt.stencil
    def in_static_method(x):
        return x[1] - x[-1]

    as_lambda = npt.stencil(lambda x: x[1] - x[-1])

    def make(self, sign):
        def inner():
            @npt.stencil
            def smooth(x):
                return sign * (x[1] - x[-1])

            return smooth

        return inner()


def test_modules_classes_nested_functions_and_trees_with_things_hung_on_them(tmp_path):
    found = [in_module, Filters.in_class, Filters().in_class, Filters.in_static_method]
    for kernel in (*found, Filters.as_lambda, Filters().make(1)):
        assert run(kernel) == DIFFERENCE
    assert int(ran(DECORATED, tmp_path)) < 5000


# fmt: off
def test_lambdas_over_several_lines_and_several_of_one_line():
    smooth = npt.stencil(
        lambda x: (
            x[1]
            - x[-1]
        )
    )
    middle = functools.reduce(lambda one, other: npt.stencil(other), [None, lambda x:
        x[1] - x[-1]])
    δ = {"größe": npt.stencil(lambda ξ: ξ[1] - ξ[-1])}
    assert run(smooth) == run(middle) == run(δ["größe"]) == DIFFERENCE
    one, two = npt.stencil(lambda x: x[-1]), npt.stencil(lambda x: x[1])
    assert (run(one), run(two)) == ([0, 1, 2, 4], [2, 4, 8, 0])
    one, two = npt.stencil(lambda x: x[1] if x[0] > 2 else 0), npt.stencil(lambda x: x[1] or 3)
    assert (run(one), run(two)) == ([0, 0, 8, 0], [2, 4, 8, 0])
    # Of equal bodies.
    one, two = (npt.stencil(lambda x, k=1: x[0] * k), npt.stencil(lambda x, k=2: x[0] * k))
    assert (run(one), run(two)) == ([1, 2, 4, 8], [2, 4, 8, 16])
    # In another one.
    assert run((lambda k: npt.stencil(lambda x: k * x[1]))(10)) == [20, 40, 80, 0]
    assert run(npt.stencil((lambda: lambda x: x[1])())) == [2, 4, 8, 0]


# fmt: on


def test_default_arguments_and_annotations(tmp_path, monkeypatch):
    @npt.stencil
    def smooth(x: np.ndarray, weight: undefined_type = 2, /, *, bias: int = 1) -> nothing:  # noqa: F821
        y: also_undefined = weight * x[1]  # noqa: F821
        return y + bias

    assert smooth.debug(X).tolist() == [5, 9, 17, 0]
    assert smooth.debug(X, 1, bias=0).tolist() == [2, 4, 8, 0]
    # And without annotations that are mere texts.
    text = "import numpy as np\n\ndef smooth(x: np.ndarray, weight: float = 2) -> float:\n"
    text += "    total: float = weight * x[1]\n    return total\n"
    assert run(npt.stencil(imported(tmp_path, monkeypatch, text)[0])) == [4, 8, 16, 0]


def test_extra_decorators():
    def doubled(function):
        @functools.wraps(function)
        def wrapper(x):
            return 2 * function(x)

        return wrapper

    @npt.stencil(boundary="nearest")
    @doubled
    def twice(x):
        return x[1] - x[-1]

    assert run(twice) == [2, 6, 12, 8]
    assert twice.__name__ == "twice"


PROMPT = """
import numpy as np
import ninepoint as npt
x = np.arange(4)
@npt.stencil
def f(x):
    return x[-1] + x[1]

print("first", f(x).sum())
@npt.stencil(boundary="nearest")
def f(x):
    return np.hypot(x[-1], 0) + x[1]

print("second", f(x).sum())
print("third", npt.stencil(lambda x: 2 * x[0])(x).sum())
exit()
"""


def test_plain_prompt():
    """To which the lines come through a terminal."""
    pty = pytest.importorskip("pty")
    ours, its = pty.openpty()
    environment = {**os.environ, "TERM": "dumb", "PYTHON_HISTORY": os.devnull}
    with subprocess.Popen(
        [sys.executable, "-q", "-i"], stdin=its, stdout=its, stderr=subprocess.STDOUT,
        env=environment,
    ) as prompt:  # fmt: skip
        os.close(its)
        os.write(ours, PROMPT.encode())
        shown = b""
        # Linux ends the terminal with an error once nobody writes to it any more.
        with contextlib.suppress(OSError):
            while part := os.read(ours, 4096):
                shown += part
        os.close(ours)
        prompt.wait(timeout=60)
    if sys.version_info >= (3, 13):
        for line in (rb"^first 6", rb"^second 12", rb"^third 12"):
            assert re.search(line, shown, re.MULTILINE), shown
    else:
        assert b"no text is stored for this function" in shown
        assert b"or at the prompt of IPython or of Python 3.13" in shown


@pytest.mark.parametrize("before", ["A = 2\n", "A = 2\n\ndef other(x):\n    return x[0]\n\n"])
def test_edited_file_whose_kernel_is_as_it_was(before, tmp_path, monkeypatch):
    smooth, file = imported(tmp_path, monkeypatch, f"A = 1\n{SMOOTH}")
    file.write_text(f"{before}{SMOOTH}B = 3\n")
    assert run(npt.stencil(smooth)) == DIFFERENCE


@pytest.mark.parametrize("after", [
    "def smooth(x):\n    return x[1] - x[-2]\n",
    "def smooth(y):\n    return y[1] - y[-1]\n",
    "def smooth(x):\n    return x[1]\n",
    "# A new line, and\ndef smooth(x):\n    return math.sqrt(x[1] - x[-1])\n",
    "def smooth(x:\n",
])  # fmt: skip
def test_edited_file_is_never_taken_for_the_function(after, tmp_path, monkeypatch):
    smooth, file = imported(tmp_path, monkeypatch, f"import math\n\n{SMOOTH}")
    file.write_text("import math\n\n" + after)
    for _ in range(2):
        refuses(npt.StencilError, "source-", npt.stencil, smooth)


def test_text_in_linecache():
    assert run(npt.stencil(from_text("def f(x):\n    return x[1] - x[-1]\n"))) == DIFFERENCE
    function = from_text("f = lambda x: x[1] + 2 * x[0]\n", "<over>")
    from_text("f = lambda x: x[1] + x[0]\n", "<over>")
    refuses(npt.StencilError, "source-changed", npt.stencil, function)


# In a new process: what is hung on `ast.Load()` stays for ever.
DECORATED = """
    import ast, copy, pickle
    import cloudpickle
    import numpy as np
    import ninepoint as npt
    from dask.base import tokenize

    for node in ast.walk(ast.parse(open(__file__).read())):
        for child in ast.iter_child_nodes(node):
            child.parent = node
    assert ast.parse("x").body[0].value.ctx.parent is not None

    slope = npt.stencil(lambda x: x[1] - x[-1])

    @npt.stencil
    def corners(x, k=2):
        total = 0
        for s in (1, 2):
            total += s * slope(x)[1]
        return total * k

    x = np.arange(9.0)
    for copied in (copy.deepcopy(corners), cloudpickle.loads(cloudpickle.dumps(corners))):
        assert copied(x).tolist() == corners(x).tolist() == corners.debug(x).tolist()
        assert tokenize(corners) == tokenize(copied)
    print(len(pickle.dumps(corners)))
"""


def test_texts_that_are_deeper_than_the_stack():
    limit, stack = sys.getrecursionlimit(), threading.stack_size()
    x = np.arange(3)
    total = " + ".join(f"x[{k % 7}]" for k in range(1050))
    deep = f"{'(' * 90}x[0]{' + 1)' * 90}"
    for text in (total, deep):
        kernel = npt.stencil(from_text(f"def f(x):\n    return {text}\n"))
        assert by_text(kernel, x).tolist() == kernel.debug(x).tolist()
    lines = "".join(f"    v{k + 1} = v{k} + x[{k % 5}]\n" for k in range(1050))
    kernel = npt.stencil(from_text(f"def f(x):\n    v0 = x[0]\n{lines}    return v1050\n"))
    assert "general" not in kernel.explain("int64")
    assert (sys.getrecursionlimit(), threading.stack_size()) == (limit, stack)


def test_names_are_read_once_also_of_a_global_that_a_comprehension_shadows():
    weight = 2
    offsets = [(-1,), (1,)]
    table = np.array([1, 10])

    @npt.stencil
    def smooth(x):
        return weight * sum(table[k] * x[offsets[k]] for k in range(2))

    before = run(smooth)
    weight = 5
    offsets.append((2,))
    table[0] = 100
    assert run(smooth) == before == by_text(smooth, X).tolist() == [0, 82, 164, 0]
    assert run(pickle.loads(pickle.dumps(smooth))) == before
    smooth = npt.stencil(lambda x: sum([x[WEIGHT] for WEIGHT in range(2)]) * WEIGHT)
    assert run(smooth) == [9, 18, 36, 0]


def scaled(weight):
    return npt.stencil(lambda x: weight * x[1])


def test_closures_of_one_text_are_kernels_of_their_own():
    def weighed(table):
        return npt.stencil(lambda x: (x[-1:2] * table).sum())

    def calling(function):
        return npt.stencil(lambda x: function(x[1]))

    wanted = [[2, 4, 8, 0], [4, 8, 16, 0], [5.0, 10.0, 20.0, 0.0], [2, 4, 8, 0]]
    assert [scaled(w)(X).tolist() for w in (1, 2, 2.5, True)] == wanted
    assert weighed(np.array([1, 0, 0]))(X).tolist() == [0, 1, 2, 4]
    assert weighed(np.array([0, 0, 1]))(X).tolist() == [2, 4, 8, 0]
    assert calling(lambda v: v + 1)(X).tolist() == [3, 5, 9, 0]
    assert calling(lambda v: v - 1)(X).tolist() == [1, 3, 7, 0]
    first, second = pickle.loads(pickle.dumps((scaled(1), scaled(2))))
    assert [run(first), run(second)] == wanted[:2]
    # 0.0 and -0.0, 1 and True compare equal, and are not the same.
    tokens = {scaled(w).__dask_tokenize__() for w in (0.0, -0.0, 1, True, 1.0, np.float32(1))}
    assert len(tokens) == 6


MAIN = """
    import multiprocessing, pickle, sys
    import numpy as np
    import ninepoint as npt

    WEIGHT = 3

    def half(value):
        return value / 2

    @npt.stencil(boundary="nearest")
    def smooth(x: np.ndarray, least: int = WEIGHT - 2, *, bias: float = WEIGHT + 4) -> np.ndarray:
        return half(WEIGHT * x[1]) if x[0] > least else bias

    def make(k):
        return npt.stencil(lambda x, j=k: k * x[0] + j)

    if __name__ == "__main__":
        x = np.arange(4)
        kernels = smooth, make(5), make(7)
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            for one in kernels:
                there = pool.apply(one, (x,))
                assert there.tolist() == one(x).tolist() and there.dtype == one(x).dtype
        print(pickle.dumps(kernels).hex())
"""


def test_pickles_from_main_need_no_file(tmp_path):
    kernels = ran(MAIN, tmp_path)
    (tmp_path / "program.py").unlink()
    smooth, *made = pickle.loads(bytes.fromhex(kernels))
    assert run(smooth) == [7.0, 6.0, 12.0, 12.0]
    assert smooth.debug(X, 2, bias=1).tolist() == [1.0, 1.0, 12.0, 12.0]
    assert smooth.__name__ == "smooth"
    assert [run(one) for one in made] == [[10, 15, 25, 45], [14, 21, 35, 63]]
