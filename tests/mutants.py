"""Change the package at random places, one at a time, and see whether a test fails.

    python tests/mutants.py draw mutants.json --root . --coverage .coverage --count 200 --seed 7
    python tests/mutants.py run mutants.json results.json --root . --coverage .coverage \
        --times times.xml
    python tests/mutants.py cover .coverage .coverage.before

A mutant is a sign, a comparison, a whole number, an `and` or a statement that is another or is
gone.  A mutant that no test kills shows what nothing checks.  The coverage comes from

    pytest --cov=ninepoint --cov-branch --cov-context=test --junitxml=times.xml

and says which tests run a line: of these some are run, cheap ones of many files first.  To compare
two suites, give `draw` the tree of the other as `--other`: what is drawn lies in both.  Every
mutant has a cache of its own, for one of compiled kernels would hide it.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree as ET
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import Queue
from typing import Any

# Tests of a mutant, how long they took in all when their times were noted, and may take [s].
TESTS, SECONDS, LIMIT = 40, 45.0, 150.0

SIGNS = {ast.Add: ("+", "-"), ast.Sub: ("-", "+")}
ORDERS = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="),
}  # fmt: skip
WORDS = {ast.And: ("and", "or"), ast.Or: ("or", "and")}


@dataclass(frozen=True, slots=True)
class Mutant:
    """A line of a function that is another: in `path`, the `nth` in `inside` that reads so."""

    path: str
    inside: str
    kind: str
    before: str
    after: str
    nth: int


class _Finder(ast.NodeVisitor):
    """Finds what may be changed: kind, line, columns and what stands there instead."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.names: list[str] = []
        self.found: list[tuple[str, str, int, int, int, str]] = []

    def note(self, kind: str, line: int, start: int, end: int, text: str) -> None:
        if self.names:
            self.found.append((".".join(self.names), kind, line, start, end, text))

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
                if name in ("__repr__", "__str__"):
                    return
                self.names.append(name)
                for one in node.body:
                    self.visit(one)
                self.names.pop()
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


def _functions(tree: ast.Module) -> dict[int, str]:
    """The qualified name of the innermost function or class of each line."""
    found: dict[int, str] = {}

    def mark(node: ast.AST, names: list[str]) -> None:
        for one in ast.iter_child_nodes(node):
            if isinstance(one, ast.FunctionDef | ast.ClassDef):
                own = [*names, one.name]
                for line in range(one.lineno, (one.end_lineno or one.lineno) + 1):
                    found[line] = ".".join(own)
                mark(one, own)
            else:
                mark(one, names)

    mark(tree, [])
    return found


class Source:
    """A file of a tree: its lines, and where in it a line of a function is."""

    def __init__(self, path: Path) -> None:
        text = path.read_text(encoding="utf-8")
        self.lines = text.splitlines()
        self.tree = ast.parse(text)
        self.places: dict[tuple[str, str], list[int]] = defaultdict(list)
        for line, name in sorted(_functions(self.tree).items()):
            self.places[name, self.lines[line - 1]].append(line)

    def line_of(self, mutant: Mutant) -> int | None:
        lines = self.places.get((mutant.inside, mutant.before), [])
        return lines[mutant.nth] if mutant.nth < len(lines) else None


def sources(root: Path) -> dict[str, Source]:
    """All files of the package, by their paths in the tree."""
    files = sorted((root / "src").rglob("*.py"))
    return {str(path.relative_to(root)): Source(path) for path in files}


def candidates(path: str, source: Source) -> Iterator[tuple[Mutant, int]]:
    """All that may be drawn of a file, and on which line it is."""
    finder = _Finder(source.lines)
    finder.visit(source.tree)
    inside = _functions(source.tree)
    for _, kind, line, start, end, new in finder.found:
        before = source.lines[line - 1]
        raw = before.encode()
        after = (raw[:start] + new.encode() + raw[end:]).decode()
        name = inside[line]
        yield (
            Mutant(path, name, kind, before, after, source.places[name, before].index(line)),
            line,
        )


class Coverage:
    """Which tests ran a line, of a file of coverage.py with branches and contexts."""

    def __init__(self, path: Path) -> None:
        self._data = sqlite3.connect(f"file:{path}?mode=ro", uri=True, check_same_thread=False)
        self._lock = threading.Lock()
        rows = self._data.execute("select id, path from file")
        self.files = {f"src/{name.rpartition('/src/')[2]}": key for key, name in rows}
        rows = self._data.execute("select id, context from context")
        self._names = {key: name.partition("|")[0] for key, name in rows}

    def tests(self, path: str, line: int) -> set[str]:
        key = self.files.get(path)
        if key is None:
            return set()
        ask = "select distinct context_id from arc where file_id = ? and (tono = ? or fromno = ?)"
        with self._lock:
            rows = self._data.execute(ask, (key, line, line)).fetchall()
        return {self._names[one] for (one,) in rows} - {""}

    def lines(self, path: str) -> set[int]:
        """The lines that some test ran."""
        key = self.files.get(path)
        ask = (
            "select distinct tono from arc join context on context_id = context.id "
            "where file_id = ? and context != '' and tono > 0"
        )
        return {line for (line,) in self._data.execute(ask, (key,))}


def draw(asked: argparse.Namespace) -> None:
    """Draw mutants of lines that some test runs, and write them down."""
    root = Path(asked.root)
    covered = [Coverage(Path(one)) for one in asked.coverage]
    other = sources(Path(asked.other)) if asked.other else None
    pool = []
    for path, source in sources(root).items():
        # The first coverage is of this tree, the second one of the other.
        run = covered[0].lines(path)
        there = other.get(path) if other else None
        run_there = covered[1].lines(path) if there and len(covered) > 1 else set()
        for mutant, line in candidates(path, source):
            if other is None:
                taken = line in run
            else:
                place = there and there.line_of(mutant)
                taken = bool(place) and (line in run or place in run_there)
            if taken:
                pool.append(mutant)
    rng = random.Random(asked.seed)
    # One of a line, and of all kinds alike: there are many more numbers than signs.
    by_kind = defaultdict(list)
    for mutant in pool:
        by_kind[mutant.kind].append(mutant)
    drawn: dict[tuple[str, str, str, int], Mutant] = {}
    while len(drawn) < asked.count:
        mutant = rng.choice(by_kind[rng.choice(sorted(by_kind))])
        drawn.setdefault((mutant.path, mutant.inside, mutant.before, mutant.nth), mutant)
    print(f"{len(pool)} places; drawn {dict(Counter(one.kind for one in drawn.values()))}")
    made = [asdict(one) for one in drawn.values()]
    Path(asked.mutants).write_text(json.dumps(made, indent=1), encoding="utf-8")


def times(path: Path) -> dict[str, float]:
    """How long each test took that passed, by its name as pytest takes it."""
    found = {}
    for case in ET.parse(path).iter("testcase"):
        if case.find("failure") is None and case.find("error") is None:
            name = f"{(case.get('classname') or '').replace('.', '/')}.py::{case.get('name')}"
            found[name] = float(case.get("time") or 0)
    return found


def chosen(tests: set[str], took: dict[str, float]) -> list[str]:
    """Some of the tests that run a line, cheap ones of all files in turn."""
    by_file = defaultdict(list)
    for name in sorted(tests & set(took), key=lambda name: (took[name], name)):
        by_file[name.partition("::")[0]].append(name)
    found: list[str] = []
    seconds = 0.0
    while by_file and len(found) < TESTS:
        for file in list(by_file):
            name = by_file[file].pop(0)
            if not by_file[file]:
                del by_file[file]
            if len(found) < TESTS and (seconds + took[name] <= SECONDS or not found):
                found.append(name)
                seconds += took[name]
    return found


def tried(mutant: Mutant, tree: Path, tests: list[str]) -> tuple[str, str]:
    """What became of a mutant, and the test that killed it."""
    path = tree / mutant.path
    source = Source(path)
    line = source.line_of(mutant)
    if line is None:
        return "elsewhere", ""
    if not tests:
        return "survived", "no test runs it"
    kept = path.read_bytes()
    lines = source.lines.copy()
    lines[line - 1] = mutant.after
    cache = tempfile.mkdtemp(prefix="mutant-")
    try:
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        # Python looks at the time in seconds and at the size.
        os.utime(path, (time.time() + random.randint(1, 10**6),) * 2)
        environment = os.environ | {
            "PYTHONPATH": str(tree / "src"), "NINEPOINT_CACHE_DIR": cache, "TMPDIR": cache,
        }  # fmt: skip
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
        done = subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, text=True, check=False,
            timeout=LIMIT,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "killed", "time is over"
    finally:
        path.write_bytes(kept)
        os.utime(path, (time.time() + random.randint(1, 10**6),) * 2)
        shutil.rmtree(cache, ignore_errors=True)
    if done.returncode == 0:
        return "survived", f"{len(tests)} tests"
    told = [one for one in done.stdout.splitlines() if one.startswith(("FAILED", "ERROR"))]
    return "killed", told[0][:200] if told else (done.stdout + done.stderr)[-200:]


def run(asked: argparse.Namespace) -> None:
    """Try mutants that have no result yet, and say what became of all."""
    results = Path(asked.results)
    mutants = [Mutant(**one) for one in json.loads(Path(asked.mutants).read_text("utf-8"))]
    known = json.loads(results.read_text("utf-8")) if results.exists() else {}
    covered, took = Coverage(Path(asked.coverage)), times(Path(asked.times))
    here = sources(Path(asked.root))
    trees: Queue[Path] = Queue()
    lock = threading.Lock()
    left_out = shutil.ignore_patterns(".git", ".venv*", "*_cache", "__pycache__", ".coverage*")
    with tempfile.TemporaryDirectory() as folder:
        for number in range(asked.workers):
            tree = Path(folder, str(number))
            shutil.copytree(asked.root, tree, ignore=left_out)
            trees.put(tree)

        def one(number: int) -> None:
            mutant = mutants[number]
            source = here.get(mutant.path)
            line = source.line_of(mutant) if source else None
            tests = chosen(covered.tests(mutant.path, line), took) if line else []
            tree = trees.get()
            try:
                became, words = tried(mutant, tree, tests) if line else ("elsewhere", "")
            finally:
                trees.put(tree)
            with lock:
                known[str(number)] = {"became": became, "by": words, **asdict(mutant)}
                results.write_text(json.dumps(known, indent=1), encoding="utf-8")
                print(
                    f"{number:4} {became:9} {mutant.path}: {mutant.after.strip()[:90]}", flush=True
                )

        wanted = range(len(mutants))
        if asked.survivors_of:
            before = json.loads(Path(asked.survivors_of).read_text("utf-8"))
            wanted = [int(n) for n, one in before.items() if one["became"] == "survived"]
        with ThreadPoolExecutor(asked.workers) as pool:
            list(pool.map(one, [n for n in wanted if str(n) not in known]))
    table: dict[str, Counter[str]] = defaultdict(Counter)
    for result in known.values():
        parts = Path(result["path"]).parts[2:-1]
        table[parts[0] if parts else "top level"][result["became"]] += 1
        table["all"][result["became"]] += 1
    for folder, counts in sorted(table.items()):
        print(f"{folder:14} {sum(counts.values()):4} drawn  {dict(counts)}")


def cover(asked: argparse.Namespace) -> None:
    """Print lines and branches that ran, of each folder of the package."""
    import coverage

    for name in asked.coverage:
        measured = coverage.Coverage(data_file=name, include="*/src/ninepoint/*")
        measured.load()
        with tempfile.TemporaryDirectory() as folder:
            told = Path(folder, "told.json")
            measured.json_report(outfile=str(told))
            files = json.loads(told.read_text("utf-8"))["files"]
        table: dict[str, Counter[str]] = defaultdict(Counter)
        for path, one in files.items():
            parts = Path(path.rpartition("/ninepoint/")[2]).parts[:-1]
            for folder in (parts[0] if parts else "top level", "all"):
                table[folder]["lines"] += one["summary"]["num_statements"]
                table[folder]["run"] += one["summary"]["covered_lines"]
                table[folder]["branches"] += one["summary"]["num_branches"]
                table[folder]["taken"] += one["summary"]["covered_branches"]
        print(name)
        for folder, n in sorted(table.items()):
            lines, branches = n["run"] / max(n["lines"], 1), n["taken"] / max(n["branches"], 1)
            print(f"  {folder:14} lines {lines:6.1%} of {n['lines']:6}  "
                  f"branches {branches:6.1%} of {n['branches']:6}")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    one: Any = commands.add_parser("draw", help="draw mutants")
    one.add_argument("mutants")
    one.add_argument("--root", default=".")
    one.add_argument("--other", help="another tree, in which they must lie as well")
    one.add_argument("--coverage", nargs="+", default=[".coverage"], help="of both trees")
    one.add_argument("--count", type=int, default=200)
    one.add_argument("--seed", type=int, default=0)
    one.set_defaults(act=draw)
    one = commands.add_parser("run", help="run tests of mutants")
    one.add_argument("mutants")
    one.add_argument("results")
    one.add_argument("--root", default=".")
    one.add_argument("--coverage", default=".coverage")
    one.add_argument("--times", default="times.xml")
    one.add_argument("--workers", type=int, default=2)
    one.add_argument("--survivors-of", help="results of another suite: only what survived there")
    one.set_defaults(act=run)
    one = commands.add_parser("cover", help="print the coverage by folder")
    one.add_argument("coverage", nargs="+")
    one.set_defaults(act=cover)
    asked = parser.parse_args()
    asked.act(asked)


if __name__ == "__main__":
    main()
