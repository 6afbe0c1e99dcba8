"""A message points at the smallest piece of source that is wrong, wherever the kernel is written.

In each program `«` and `»` stand around the piece that the carets have to mean.
"""

from __future__ import annotations

import pytest

import ninepoint as npt

LAMBDAS = """
ΔΔ = dict(
    left=npt.stencil(lambda x: x[-1]), right=npt.stencil(lambda größe: größe[1] * größe[«2.5»])
)
"""
PROGRAMS = {
    "the kernel of a decorator with lines of its own": """
@npt.stencil(
    boundary="nearest",
    neighborhood=((-1, 1),),
)
def smooth(
    x,
    weight=2,
):
    return «x[-3]» * weight
""",
    "a statement that goes on": """
@npt.stencil
def smooth(image):
    return image[-1:2, -1:2] + image[
        0,
        «0.5»,
    ]
""",
    "after annotations and defaults": """
@npt.stencil
def smooth(x, *, weight: float = 2.0, bias: "int" = 1) -> float:
    return weight * x[-1] + bias * x[«"a"»]
""",
    "a helper": """
def gradient(field, axis):
    return field[«1.0»] - field[-1]

@npt.stencil
def slope(x):
    return gradient(x, 0)
""",
    "a kernel in a method": """
class Model:
    def build(self):
        @npt.stencil
        def smooth(x):
            if x[0] > 0:
                total = x[-1] + x[1]
            return «total» / 2

Model().build()
""",
    "a lambda": "smooth = npt.stencil(lambda x: x[-1] + x[«0.5»])\n",
    "one of two lambdas on a line": LAMBDAS,
    "a lambda over lines": """
smooth = npt.stencil(
    lambda x: (
        x[-1]
        + x[«1.5»]
    ),
)
""",
    "a name that is also a piece of def": """
@npt.stencil
def «d»(x):
    return 2 * x
""",
    "a function in a kernel": """
@npt.stencil
def smooth(x):
    def weigh(value):
        «class Pair:»
            pass
        return value
    return weigh(x[0])
""",
    "below a text without indentation": '''
@npt.stencil
def smooth(x):
    """Smooth.
It has a text
without indentation.
    """
    return x[-1] + x[«1.5»]
''',
    "a chain of operators": """
@npt.stencil
def shifted(μ, k):
    return σ * μ[0, «k»] - μ[0, 0]
""",
    "indented by tabs": """
def build():
\t@npt.stencil
\tdef smooth(x):
\t\treturn x[-1] +\t«wieght» * x[1]
build()
""",
    "below a wide letter and an accent that combines": """
@npt.stencil
def 平滑(图像):
    e\u0301 = 2
    return e\u0301 * 图像[0, 0] + 图像[0, «0.5»]
""",
}


def mistake(program, file):
    text = program.replace("«", "").replace("»", "")
    file.write_text(text, encoding="utf-8")
    with pytest.raises(npt.StencilError) as caught:
        exec(compile(text, str(file), "exec"), {"npt": npt, "σ": 0.5})
    return caught.value


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_the_carets_mean_the_piece_that_is_wrong(program, tmp_path):
    at = mistake(program, tmp_path / "kernel.py").diagnostic.span
    before, _, rest = program.partition("«")
    line = before.rpartition("\n")[2]
    assert at.line == before.count("\n") + 1
    assert (at.start, at.text[at.start : at.end]) == (len(line), rest.partition("»")[0])


@pytest.mark.parametrize(
    ("program", "carets"),
    [
        ("indented by tabs", "      | \t\t              \t^^^^^^ "),
        ("below a wide letter and an accent that combines", f"      | {' ' * 36}^^^ "),
    ],
)
def test_carets_stand_below_what_a_terminal_shows(program, carets, tmp_path):
    lines = str(mistake(PROGRAMS[program], tmp_path / "kernel.py")).splitlines()
    assert lines[3].startswith(carets)
