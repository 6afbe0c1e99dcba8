"""Change the package at random places, one at a time, and see whether a test fails.

    python tests/mutants.py src/ninepoint/arrays/borders.py tests/calls/test_in_memory.py
    python tests/mutants.py src/ninepoint/lowering tests/meaning tests/inside --count 50 --seed 7

The first words are files or folders of the package, the others are tests.  A mutant is a sign, a
comparison, a whole number, an `and` or a statement that is another or is gone.  A mutant that no
test kills shows what nothing checks.  Each is tried in a copy of the tree, with a cache of its
own, for one of compiled kernels would hide it.
"""

import argparse
import ast
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent

# How long the tests of a mutant may take [s].
LIMIT = 600.0

SIGNS = {ast.Add: ("+", "-"), ast.Sub: ("-", "+")}
ORDERS = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="),
}  # fmt: skip
WORDS = {ast.And: ("and", "or"), ast.Or: ("or", "and")}


@dataclass(frozen=True, slots=True)
class Mutant:
    """A line of a file that is another."""

    path: Path
    kind: str
    line: int
    after: str


class _Finder(ast.NodeVisitor):
    """Finds what may be changed in functions and classes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines = path.read_text(encoding="utf-8").splitlines()
        self.depth = 0
        self.found: list[Mutant] = []

    def note(self, kind: str, line: int, start: int, end: int, text: str) -> None:
        if self.depth:
            raw = self.lines[line - 1].encode()
            after = (raw[:start] + text.encode() + raw[end:]).decode()
            self.found.append(Mutant(self.path, kind, line, after))

    def between(self, kind: str, left: ast.expr, right: ast.expr, old: str, new: str) -> None:
        """Note an operator, if it stands on the line of both operands."""
        line, start, end = left.end_lineno or 0, left.end_col_offset or 0, right.col_offset
        if line == right.lineno:
            place = self.lines[line - 1].encode()[start:end].decode().find(old)
            if place >= 0:
                self.note(kind, line, start + place, start + place + len(old), new)

    def visit(self, node: ast.AST) -> None:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                if name not in ("__repr__", "__str__"):
                    self.depth += 1
                    for one in node.body:
                        self.visit(one)
                    self.depth -= 1
                return
            case ast.Raise() | ast.JoinedStr() | ast.Import() | ast.ImportFrom():
                return
            case ast.AnnAssign(value=value):
                if value is not None:
                    self.visit(value)
                return
            case ast.BinOp(left=left, op=op, right=right) if type(op) in SIGNS:
                self.between("sign", left, right, *SIGNS[type(op)])
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in ORDERS:
                self.between("comparison", left, right, *ORDERS[type(op)])
            case ast.BoolOp(op=op, values=[left, right, *_]):
                self.between("word", left, right, *WORDS[type(op)])
            case ast.Constant(value=bool()):
                pass
            case ast.Constant(value=int() as value):
                new = str(value + 1 if (value + node.lineno) % 2 else value - 1)
                self.note("number", node.lineno, node.col_offset, node.end_col_offset or 0, new)
            case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Continue():
                if node.lineno == node.end_lineno:
                    end = node.end_col_offset or 0
                    self.note("statement", node.lineno, node.col_offset, end, "pass")
            case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
                if node.lineno == node.end_lineno:
                    end = node.end_col_offset or 0
                    self.note("statement", node.lineno, node.col_offset, end, "pass")
        self.generic_visit(node)


def drawn(paths: list[Path], count: int, seed: int) -> list[Mutant]:
    """So many, of all kinds alike: there are many more numbers than signs."""
    by_kind = defaultdict(list)
    for path in paths:
        finder = _Finder(path)
        finder.visit(ast.parse(path.read_text(encoding="utf-8")))
        for mutant in finder.found:
            by_kind[mutant.kind].append(mutant)
    rng, found = random.Random(seed), []
    while by_kind and len(found) < count:
        kind = rng.choice(sorted(by_kind))
        found.append(by_kind[kind].pop(rng.randrange(len(by_kind[kind]))))
        if not by_kind[kind]:
            del by_kind[kind]
    return found


def first_failure(tree: Path, tests: list[str]) -> str:
    """Run tests of a tree until one fails; which, or nothing."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        environment = os.environ | {
            "PYTHONPATH": str(tree / "src"), "NINEPOINT_CACHE_DIR": os.path.join(folder, "cache"),
            "TMPDIR": folder, "PYTHONDONTWRITEBYTECODE": "1",
        }  # fmt: skip
        command = [sys.executable, "-m", "pytest", "-x", "-v", "--tb=no", "-n", "0", *tests]
        with subprocess.Popen(
            [*command, "-p", "no:cacheprovider"], cwd=tree, env=environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        ) as process:  # fmt: skip
            try:
                told, _ = process.communicate(timeout=LIMIT)
            except subprocess.TimeoutExpired:
                return "time is over"
            finally:
                # What it started too, which would else keep a core and the pipe.
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
    failed = [line for line in told.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return (failed or [f"ended with {process.returncode}"])[0] if process.returncode else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="+", help="files of the package, then tests")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    named = [Path(one).resolve().relative_to(ROOT) for one in asked.paths if "tests" not in one]
    tests = [one for one in asked.paths if "tests" in one]
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, ROOT.name)
        left_out = shutil.ignore_patterns(".git", ".venv*", "*_cache", "__pycache__")
        shutil.copytree(ROOT, tree, ignore=left_out)
        assert not (words := first_failure(tree, tests)), f"without any mutant: {words}"
        files = [path for one in named for path in ([tree / one, *(tree / one).rglob("*.py")])]
        became: Counter[str] = Counter()
        for mutant in drawn(sorted({p for p in files if p.is_file()}), asked.count, asked.seed):
            kept = mutant.path.read_text(encoding="utf-8")
            lines = kept.splitlines()
            lines[mutant.line - 1] = mutant.after
            mutant.path.write_text("\n".join([*lines, ""]), encoding="utf-8")
            words = first_failure(tree, tests)
            mutant.path.write_text(kept, encoding="utf-8")
            became["killed" if words else "survived"] += 1
            place = f"{mutant.path.relative_to(tree)}:{mutant.line}"
            print(f"{words or 'survived':60.60} {place}: {mutant.after.strip()[:90]}", flush=True)
    print(dict(became))


if __name__ == "__main__":
    main()
