"""A kernel is found wherever Python lets one write it, and keeps what its names meant."""

from __future__ import annotations

import contextlib
import doctest
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

pytestmark = pytest.mark.filterwarnings("ignore::ninepoint.PerformanceWarning")

X = np.array([1, 2, 4, 8])
DIFFERENCE = [0, 3, 6, 0]  # x[1] - x[-1] of X, with nothing beyond the border

WEIGHT = 3


def run(smooth):
    """Run the kernel itself, point by point: no compiling is needed to see what was found."""
    return smooth.debug(X).tolist()


@npt.stencil
def in_module(x):
    return x[1] - x[-1]


class Filters:
    scale = 1

    @npt.stencil
    def in_class(x):
        return x[1] - x[-1]

    @staticmethod
    @npt.stencil
    def in_static_method(x):
        return x[1] - x[-1]

    as_lambda = npt.stencil(lambda x: x[1] - x[-1])


def test_module():
    assert run(in_module) == DIFFERENCE


def test_class_body():
    assert run(Filters.in_class) == DIFFERENCE
    assert run(Filters().in_class) == DIFFERENCE
    assert run(Filters.in_static_method) == DIFFERENCE
    assert run(Filters.as_lambda) == DIFFERENCE


def test_nested_functions():
    def outer():
        sign = 1

        class Holder:
            def make(self):
                @npt.stencil
                def smooth(x):
                    return sign * (x[1] - x[-1])

                return smooth

        return Holder().make()

    assert run(outer()) == DIFFERENCE


# fmt: off
def test_lambda_over_several_lines():
    smooth = npt.stencil(
        lambda x: (
            x[1]
            - x[-1]
        )
    )
    assert run(smooth) == DIFFERENCE


def test_lambda_that_begins_in_the_middle():
    smooth = functools.reduce(lambda one, other: npt.stencil(other), [None, lambda x:
        x[1] - x[-1]])
    assert run(smooth) == DIFFERENCE


def test_lambdas_of_one_line_are_told_apart():
    one, two = npt.stencil(lambda x: x[-1]), npt.stencil(lambda x: x[1])
    assert run(one) == [0, 1, 2, 4]
    assert run(two) == [2, 4, 8, 0]


def test_lambdas_whose_bodies_are_choices_are_told_apart():
    one, two = npt.stencil(lambda x: x[1] if x[0] > 2 else 0), npt.stencil(lambda x: x[1] or 3)
    assert run(one) == [0, 0, 8, 0]
    assert run(two) == [2, 4, 8, 0]


def test_lambdas_with_equal_bodies_are_told_apart():
    one, two = (npt.stencil(lambda x, k=1: x[0] * k), npt.stencil(lambda x, k=2: x[0] * k))
    assert run(one) == [1, 2, 4, 8]
    assert run(two) == [2, 4, 8, 16]


def test_lambda_inside_a_lambda():
    smooth = (lambda factor: npt.stencil(lambda x: factor * x[1]))(10)
    assert run(smooth) == [20, 40, 80, 0]
    same = npt.stencil((lambda: lambda x: x[1])())
    assert run(same) == [2, 4, 8, 0]
# fmt: on


def test_lambda_with_greek_letters_before_it():
    δ = {"größe": npt.stencil(lambda ξ: ξ[1] - ξ[-1])}
    assert run(δ["größe"]) == DIFFERENCE


def test_default_arguments_and_annotations():
    @npt.stencil
    def smooth(x: np.ndarray, weight: undefined_type = 2, /, *, bias: int = 1) -> nothing:  # noqa: F821
        y: also_undefined = weight * x[1]  # noqa: F821
        return y + bias

    assert smooth.debug(X).tolist() == [5, 9, 17, 0]
    assert smooth.debug(X, 1, bias=0).tolist() == [2, 4, 8, 0]


def test_annotations_without_the_future_import(tmp_path, monkeypatch):
    (tmp_path / "annotated_kernels.py").write_text(
        "import numpy as np\nimport ninepoint as npt\n\n\n"
        "@npt.stencil\n"
        "def smooth(x: np.ndarray, weight: float = 2) -> float:\n"
        "    total: float = weight * x[1]\n"
        "    return total\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert run(__import__("annotated_kernels").smooth) == [4, 8, 16, 0]


def test_extra_decorator_that_gives_the_function_back():
    seen = []

    def register(function):
        seen.append(function)
        return function

    @npt.stencil(
        boundary="nearest",
    )
    @register
    def smooth(x):
        return x[1] - x[-1]

    assert run(smooth) == [1, 3, 6, 4]
    assert seen == [smooth.__wrapped__]


def test_extra_decorator_with_parameters_of_its_own():
    def doubled(function):
        @functools.wraps(function)
        def wrapper(x):
            return 2 * function(x)

        return wrapper

    @npt.stencil
    @doubled
    def smooth(x):
        return x[1] - x[-1]

    assert run(smooth) == [0, 6, 12, 0]
    assert smooth.__name__ == "smooth"


def test_asserts_elsewhere_in_a_module_that_pytest_rewrote():
    # This very module: pytest has rewritten its asserts, and the lines below stand among them.
    assert WEIGHT == 3

    def smooth(x):
        return WEIGHT * x[1]

    assert run(npt.stencil(smooth)) == [6, 12, 24, 0]


def test_code_with_an_entry_in_linecache():
    text = "def smooth(x):\n    return x[1] - x[-1]\n"
    linecache.cache["<made>"] = (len(text), None, text.splitlines(keepends=True), "<made>")
    names = {}
    exec(compile(text, "<made>", "exec"), names)
    assert run(npt.stencil(names["smooth"])) == DIFFERENCE


def test_doctest():
    text = """
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> @npt.stencil
    ... def smooth(x):
    ...     return x[1] - x[-1]
    >>> smooth.debug(np.array([1, 2, 4, 8])).tolist()
    [0, 3, 6, 0]
    >>> double = npt.stencil(lambda x: 2 * x[0])
    >>> double.debug(np.array([1, 2])).tolist()
    [2, 4]
    """
    test = doctest.DocTestParser().get_doctest(text, {}, "kernels", None, 0)
    runner = doctest.DocTestRunner(verbose=False)
    runner.run(test)
    assert runner.summarize(verbose=False) == (0, 6)


def test_notebook_cells():
    shell_module = pytest.importorskip("IPython.core.interactiveshell")
    # A new process: the shell would take over this one's hooks.
    program = textwrap.dedent("""
        from IPython.core.interactiveshell import InteractiveShell
        import linecache

        shell = InteractiveShell.instance()
        def run(cell):
            shell.run_cell(cell).raise_error()

        run("import numpy as np, ninepoint as npt; x = np.array([1, 2, 4, 8])")
        run("@npt.stencil\\ndef smooth(x):\\n    return x[1] - x[-1]\\n")
        run("assert smooth.debug(x).tolist() == [0, 3, 6, 0]")
        run("@npt.stencil\\ndef smooth(x):\\n    return 2 * (x[1] - x[-1])\\n")
        run("assert smooth.debug(x).tolist() == [0, 6, 12, 0]")
        run("import asyncio\\nawait asyncio.sleep(0)\\nright = npt.stencil(lambda x: x[1])")
        run("here = %pwd\\nleft = npt.stencil(lambda x: x[-1])\\nassert left.debug(x)[1] == 1")
        run("wrong = None\\ntry:\\n    npt.stencil(lambda x: x[0.5])\\n"
            "except npt.StencilError as error:\\n    wrong = str(error)")
        run("assert 'npt.stencil(lambda x: x[0.5])' in wrong, wrong")
        print("done")
    """)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.endswith("done\n"), done.stdout + done.stderr
    assert shell_module


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
"""


def at_the_prompt(text):
    """What Python prints at its prompt, to which the lines come through a terminal."""
    pty = pytest.importorskip("pty")
    ours, its = pty.openpty()
    environment = {**os.environ, "TERM": "dumb", "PYTHON_HISTORY": os.devnull}
    command = [sys.executable, "-q", "-i"]
    with subprocess.Popen(
        command, stdin=its, stdout=its, stderr=subprocess.STDOUT, env=environment
    ) as prompt:
        os.close(its)
        os.write(ours, (text + "\nexit()\n").encode())
        shown = bytearray()
        # Linux ends the terminal with an error once nobody writes to it any more.
        with contextlib.suppress(OSError):
            while part := os.read(ours, 4096):
                shown += part
        os.close(ours)
        prompt.wait(timeout=60)
    return shown.decode()


def test_plain_prompt():
    shown = at_the_prompt(PROMPT)
    if sys.version_info >= (3, 13):
        assert re.search(r"^first 6", shown, re.MULTILINE), shown
        assert re.search(r"^second 12", shown, re.MULTILINE), shown
        assert re.search(r"^third 12", shown, re.MULTILINE), shown
    else:
        assert "no text is stored for this function" in shown
        assert "or at the prompt of IPython or of Python 3.13" in shown


def test_command_that_keeps_no_source_says_what_to_do():
    done = subprocess.run(
        [sys.executable, "-c", "import ninepoint as npt\nnpt.stencil(lambda x: x[0])"],
        capture_output=True,
        text=True,
        check=False,
    )
    # Python 3.13 keeps the text of -c.
    assert bool(done.returncode) == (sys.version_info < (3, 13))
    if done.returncode:
        assert "[source-missing]" in done.stderr
        assert "Help: Define it with 'def' in a file or a notebook cell" in done.stderr


def test_edited_file_whose_kernel_is_as_it_was(tmp_path, monkeypatch):
    module = tmp_path / "steady_kernel.py"
    module.write_text("A = 1\ndef smooth(x):\n    return x[1] - x[-1]\n")
    monkeypatch.syspath_prepend(tmp_path)
    smooth = __import__("steady_kernel").smooth
    module.write_text("A = 2\ndef smooth(x):\n    return x[1] - x[-1]\nB = 3\n")
    assert run(npt.stencil(smooth)) == DIFFERENCE


def test_edited_file_whose_kernel_has_moved(tmp_path, monkeypatch):
    module = tmp_path / "moved_kernel.py"
    text = "def smooth(x):\n    return x[1] - x[-1]\n"
    module.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    smooth = __import__("moved_kernel").smooth
    module.write_text("A = 2\n\ndef other(x):\n    return x[0]\n\n" + text)
    assert run(npt.stencil(smooth)) == DIFFERENCE


@pytest.mark.parametrize(
    "after",
    [
        "def smooth(x):\n    return x[1] + x[-1]\n",
        "def smooth(x):\n    return x[1] - x[-2]\n",
        "def smooth(y):\n    return y[1] - y[-1]\n",
        "def smooth(x):\n    return x[1]\n",
        "def smooth(x):\n    return math.sqrt(x[1] - x[-1])\n",
    ],
)
def test_edited_file_is_never_taken_for_the_function(after, tmp_path, monkeypatch):
    module = tmp_path / "edited.py"
    module.write_text("import math\n\ndef smooth(x):\n    return x[1] - x[-1]\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "edited", raising=False)
    smooth = __import__("edited").smooth
    module.write_text("import math\n\n" + after)
    with pytest.raises(npt.StencilError, match="source-changed"):
        npt.stencil(smooth)


def test_text_in_linecache_that_was_put_over_another():
    names = {}
    before, after = "f = lambda x: x[1] + 2 * x[0]\n", "f = lambda x: x[1] + x[0]\n"
    exec(compile(before, "<over>", "exec"), names)
    linecache.cache["<over>"] = (len(after), None, [after], "<over>")
    with pytest.raises(npt.StencilError, match="source-changed"):
        npt.stencil(names["f"])


def test_tools_that_hang_things_on_syntax_trees(tmp_path):
    pytest.importorskip("dask")
    # In a new process: what is hung on `ast.Load()` stays for ever.
    text = """
        import ast, copy, pickle, sys
        import cloudpickle
        import numpy as np
        import ninepoint as npt
        from dask.base import tokenize

        tree = ast.parse(open(__file__).read())
        for node in ast.walk(tree):
            for child in ast.iter_child_nodes(node):
                child.parent = node
        assert ast.parse("x").body[0].value.ctx.parent is not None

        @npt.stencil
        def slopes(x):
            return x[1] - x[-1], x[1] + x[-1]

        @npt.stencil
        def corners(x, k=2):
            total = 0
            for s in (1, 2):
                dy, dx = slopes(x)
                total += s * dx[1]
            return total * k + dy[0]

        x = np.arange(9.0)
        wanted = corners(x).tolist()
        for copied in (copy.deepcopy(corners), pickle.loads(pickle.dumps(corners)),
                       cloudpickle.loads(cloudpickle.dumps(corners))):
            assert copied(x).tolist() == wanted
        assert corners.debug(x).tolist() == wanted
        assert tokenize(corners) == tokenize(copied)
        shifted = npt.stencil(neighborhood=((-1, 1),))(lambda x, k: x[k])
        assert shifted(x, 1).tolist() == [0, *x[2:], 0]
        print(len(pickle.dumps(corners)))
    """
    program = tmp_path / "decorated.py"
    program.write_text(textwrap.dedent(text))
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 5000


# What the names of a kernel mean.


def test_names_are_read_once():
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
    assert run(smooth) == before == smooth(X).tolist() == [0, 82, 164, 0]
    assert run(pickle.loads(pickle.dumps(smooth))) == before


def scaled(weight):
    @npt.stencil
    def smooth(x):
        return weight * x[1]

    return smooth


def weighed(table):
    @npt.stencil
    def smooth(x):
        return (x[-1:2] * table).sum()

    return smooth


def calling(function):
    return npt.stencil(lambda x: function(x[1]))


def test_closures_of_one_text_do_not_share_results():
    assert [scaled(w)(X).tolist() for w in (1, 2, 2.5, True)] == [
        [2, 4, 8, 0],
        [4, 8, 16, 0],
        [5.0, 10.0, 20.0, 0.0],
        [2, 4, 8, 0],
    ]
    assert weighed(np.array([1, 0, 0]))(X).tolist() == [0, 1, 2, 4]
    assert weighed(np.array([0, 0, 1]))(X).tolist() == [2, 4, 8, 0]
    assert calling(lambda v: v + 1)(X).tolist() == [3, 5, 9, 0]
    assert calling(lambda v: v - 1)(X).tolist() == [1, 3, 7, 0]


def test_pickles_of_closures_are_distinct():
    one, two = scaled(1), scaled(2)
    first, second = pickle.loads(pickle.dumps((one, two)))
    assert (run(first), run(second)) == (run(one), run(two))
    # 0.0 and -0.0, 1 and True compare equal, and are not the same.
    tokens = {scaled(w).__dask_tokenize__() for w in (0.0, -0.0, 1, True, 1.0, np.float32(1))}
    assert len(tokens) == 6


MAIN = """
    import multiprocessing
    import numpy as np
    import ninepoint as npt

    WEIGHT = 3

    def half(value):
        return value / 2

    @npt.stencil(boundary="nearest")
    def smooth(x, bias=1):
        return half(WEIGHT * x[1]) + bias

    doubled = npt.stencil(lambda x: 2 * x[0])

    def make(k):
        return npt.stencil(lambda x: k * x[0])

    if __name__ == "__main__":
        x = np.arange(4)
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            for one in (smooth, doubled, make(5), make(7)):
                there = pool.apply(one, (x,))
                assert there.tolist() == one(x).tolist() and there.dtype == one(x).dtype
        print("done")
"""


def test_pickles_from_main_to_another_process(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(MAIN))
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False)
    assert done.stdout == "done\n", done.stderr


def test_pickle_needs_no_file(tmp_path):
    text = """
        import pickle, sys, numpy as np
        import ninepoint as npt

        K = 2

        @npt.stencil
        def smooth(x: np.ndarray, least: int = K - 1, *, other: float = K + 5) -> np.ndarray:
            return np.sqrt(x[1]) if x[0] > least else other

        shifted = npt.stencil(lambda x, k=K: x[1] + k)
        sys.stdout.buffer.write(pickle.dumps((smooth, shifted)))
    """
    program = tmp_path / "gone.py"
    program.write_text(textwrap.dedent(text))
    data = subprocess.run([sys.executable, program], capture_output=True, check=True).stdout
    program.unlink()
    smooth, shifted = pickle.loads(data)
    assert run(smooth) == [7.0, 2.0, np.sqrt(8), 0.0]
    assert smooth.debug(X, 2, other=1).tolist() == [1.0, 1.0, np.sqrt(8), 0.0]
    assert smooth.__name__ == "smooth"
    assert run(shifted) == [4, 6, 10, 0]


def test_global_that_a_comprehension_shadows():
    @npt.stencil
    def smooth(x):
        return sum([x[WEIGHT] for WEIGHT in range(2)]) * WEIGHT

    assert run(smooth) == [9, 18, 36, 0]


def from_text(text, name="<written>"):
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    names = {}
    exec(compile(text, name, "exec"), names)
    return npt.stencil(names["f"])


def test_a_sum_that_is_deeper_than_the_stack():
    limit, stack = sys.getrecursionlimit(), threading.stack_size()
    text = " + ".join(f"x[{k % 7}]" for k in range(1200))
    kernel = from_text(f"def f(x):\n    return {text}\n", "<sum>")
    x = np.arange(9)
    assert kernel(x).tolist() == kernel.debug(x).tolist()
    assert kernel(x)[0] == sum(k % 7 for k in range(1200))
    assert (sys.getrecursionlimit(), threading.stack_size()) == (limit, stack)


def test_nested_parentheses():
    kernel = from_text(f"def f(x):\n    return {'(' * 90}x[0]{' + 1)' * 90}\n", "<parentheses>")
    assert kernel(np.arange(3)).tolist() == [90, 91, 92]


def test_locals_by_the_hundred_stay_on_the_fast_path():
    lines = "".join(f"    v{k + 1} = v{k} + x[{k % 5}]\n" for k in range(1300))
    kernel = from_text(f"def f(x):\n    v0 = x[0]\n{lines}    return v1300\n", "<locals>")
    assert "general" not in kernel.explain("int64")
