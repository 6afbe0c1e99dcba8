"""Change the package at random places, one at a time, and see whether a test fails.

    python tests/mutants.py draw mutants.json --root . --coverage .coverage --count 200 --seed 7
    python tests/mutants.py run mutants.json results.json --root . --coverage .coverage \
        --times times.xml
    python tests/mutants.py cover .coverage .coverage.before

A mutant is a sign, a comparison, a whole number, an `and` or a statement that is another or is
gone.  A mutant that no test kills shows what nothing checks.  The coverage comes from

    pytest --cov=ninepoint --cov-branch --cov-context=test --junitxml=times.xml

and says which tests run a line: of these some are run, cheap ones of many files first.  To compare
two suites, give `draw` the tree of the other as `--other`: what is drawn lies in both.  What has
moved to another file is found there if nothing else reads so.  Every mutant has a cache of its
own, for one of compiled kernels would hide it.

A test that fails kills a mutant only if the same tests pass without it: one that fails in any
case, cannot be run by itself or takes too long is left out, and the others are run again.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import signal
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
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from queue import Queue
from typing import Any

# Tests of a mutant, how long they took in all when their times were noted, and may take [s].
TESTS, SECONDS, LIMIT = 40, 45.0, 150.0
LATE = "time is over"

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


def place(files: dict[str, Source], mutant: Mutant) -> tuple[str, int] | None:
    """Where in a tree a mutant is: in its own file, or in the only other one that reads so."""
    source = files.get(mutant.path)
    line = source.line_of(mutant) if source else None
    if line is not None:
        return mutant.path, line
    key = mutant.inside, mutant.before
    found = [(path, line) for path, one in files.items() for line in one.places.get(key, [])]
    return found[0] if len(found) == 1 and mutant.nth == 0 else None


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
        self._names = {key: name.rpartition("|")[0] for key, name in rows}

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

    @cache
    def run_there(path: str) -> set[int]:
        return covered[1].lines(path) if len(covered) > 1 else set()

    pool = []
    for path, source in sources(root).items():
        # The first coverage is of this tree, the second one of the other.
        run = covered[0].lines(path)
        for mutant, line in candidates(path, source):
            if other is None:
                taken = line in run
            else:
                there = place(other, mutant)
                taken = there is not None and (line in run or there[1] in run_there(there[0]))
            if taken:
                pool.append(mutant)
    rng = random.Random(asked.seed)
    # One of a line, and of all kinds alike: there are many more numbers than signs.
    by_kind = defaultdict(list)
    for mutant in pool:
        by_kind[mutant.kind].append(mutant)
    drawn: dict[tuple[str, str, str, int], Mutant] = {}
    lines = {(one.path, one.inside, one.before, one.nth) for one in pool}
    assert asked.count <= len(lines), f"there are {len(lines)} lines to draw from"
    while len(drawn) < asked.count:
        mutant = rng.choice(by_kind[rng.choice(sorted(by_kind))])
        drawn.setdefault((mutant.path, mutant.inside, mutant.before, mutant.nth), mutant)
    print(f"{len(pool)} places; drawn {dict(Counter(one.kind for one in drawn.values()))}")
    made = [asdict(one) for one in drawn.values()]
    Path(asked.mutants).write_text(json.dumps(made, indent=1), encoding="utf-8")


def times(path: Path) -> dict[tuple[str, str], float]:
    """How long each test took that passed, by its class and name."""
    found = {}
    for case in ET.parse(path).iter("testcase"):
        if not any(case.find(word) is not None for word in ("failure", "error", "skipped")):
            key = case.get("classname") or "", case.get("name") or ""
            found[key] = float(case.get("time") or 0)
    return found


def _class_and_name(test: str) -> tuple[str, str]:
    """Say `tests/a.py::C::test[x]` as the file of the times does: `tests.a.C`, `test[x]`."""
    plain, bracket, drawn = test.partition("[")
    file, *classes, name = plain.split("::")
    return ".".join([file.removesuffix(".py").replace("/", "."), *classes]), name + bracket + drawn


def chosen(tests: set[str], took: dict[tuple[str, str], float]) -> list[str]:
    """Some of the tests that run a line, cheap ones of all files in turn."""
    seconds_of = {one: took[key] for one in tests if (key := _class_and_name(one)) in took}
    by_file = defaultdict(list)
    for name in sorted(seconds_of, key=lambda name: (seconds_of[name], name)):
        by_file[name.partition("::")[0]].append(name)
    found: list[str] = []
    seconds = 0.0
    while by_file and len(found) < TESTS:
        for file in list(by_file):
            name = by_file[file].pop(0)
            if not by_file[file]:
                del by_file[file]
            if len(found) < TESTS and (seconds + seconds_of[name] <= SECONDS or not found):
                found.append(name)
                seconds += seconds_of[name]
    return found


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whether tests pass; if not, those among them that are to blame, and the words."""

    passed: bool
    blamed: tuple[str, ...] = ()
    words: str = ""


def _outcome(tests: list[str], code: int, told: str) -> Outcome:
    """Read what pytest printed, names first: with `-v` it prints a name before it runs a test."""
    if code == 0:
        return Outcome(True)
    for line in told.splitlines():
        if line.startswith("ERROR: not found: "):
            # Without the part in brackets: one of several tests.
            plain = line.rpartition("/tests/")[2]
            return Outcome(False, tuple(t for t in tests if f"tests/{plain}" in t), line[:200])
        if line.startswith(("FAILED ", "ERROR ")):
            words = line.partition(" ")[2]
            # Of names that begin alike the longest; a file that is not imported has no names.
            names = [t for t in tests if words.startswith(t)]
            file = words.partition(" ")[0]
            blamed = [max(names, key=len)] if names else [t for t in tests if t.startswith(file)]
            return Outcome(False, tuple(blamed), line[:200])
    # The process ended in the middle of a test.
    begun = [one for one in tests if f"\n{one} " in told]
    words = f"ended with {code}" + (f" in {begun[-1]}" if begun else "")
    return Outcome(False, tuple(begun[-1:]), words)


def outcome(tree: Path, tests: list[str], limit: float = LIMIT) -> Outcome:
    """Run tests of a tree until one fails, with a cache and a temporary folder of their own."""
    folder = tempfile.mkdtemp(prefix="mutant-")
    for name in ("cache", "tmp"):
        Path(folder, name).mkdir()
    environment = os.environ | {
        "PYTHONPATH": str(tree / "src"),
        "NINEPOINT_CACHE_DIR": str(Path(folder, "cache")), "TMPDIR": str(Path(folder, "tmp")),
    }  # fmt: skip
    command = [sys.executable, "-m", "pytest", "-x", "-v", "--tb=no", "-p", "no:cacheprovider",
               "-p", "no:xdist", *tests]  # fmt: skip
    try:
        with subprocess.Popen(
            command, cwd=tree, env=environment, text=True, errors="replace",
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        ) as process:  # fmt: skip
            try:
                told, _ = process.communicate(timeout=limit)
            except subprocess.TimeoutExpired:
                return Outcome(False, tuple(tests), LATE)
            finally:
                # What it started too, which would else keep a core and the pipe.
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        return _outcome(tests, process.returncode, told)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _write(path: Path, text: bytes) -> None:
    path.write_bytes(text)
    # Python looks at the time in seconds and at the size.
    os.utime(path, (time.time() + random.randint(1, 10**6),) * 2)


def tried(mutant: Mutant, path: Path, line: int, tree: Path, tests: list[str]) -> tuple[str, str]:
    """What became of a mutant, and the test that killed it."""
    kept = path.read_bytes()
    lines = kept.decode().splitlines()
    lines[line - 1] = mutant.after
    left_out = 0
    while tests:
        try:
            _write(path, ("\n".join(lines) + "\n").encode())
            found = outcome(tree, tests)
        finally:
            _write(path, kept)
        if found.passed:
            return "survived", f"{len(tests)} tests" + f", {left_out} left out" * bool(left_out)
        last = max((tests.index(one) for one in found.blamed), default=len(tests) - 1)
        # What nearly takes too long may do so without a reason on a busy machine.
        limit = LIMIT / 2 if found.words == LATE else LIMIT
        without = outcome(tree, tests[: last + 1], limit)
        if without.passed:
            return "killed", found.words
        dropped = set(without.blamed)
        if without.words == LATE:
            # The first half may be quick enough.
            dropped = set(without.blamed[len(without.blamed) // 2 :])
        left_out += len(dropped)
        if not dropped:
            return "unclear", without.words
        tests = [one for one in tests if one not in dropped]
    if left_out:
        return "unclear", f"none of {left_out} tests passes without it"
    return "survived", "no test runs it"


def run(asked: argparse.Namespace) -> None:
    """Try mutants that have no result yet, and say what became of all."""
    results = Path(asked.results)
    mutants = [Mutant(**one) for one in json.loads(Path(asked.mutants).read_text("utf-8"))]
    known = json.loads(results.read_text("utf-8")) if results.exists() else {}
    if asked.again:
        known = {key: one for key, one in known.items() if one["became"] not in asked.again}
    covered, took = Coverage(Path(asked.coverage)), times(Path(asked.times))
    here = sources(Path(asked.root))
    trees: Queue[Path] = Queue()
    lock = threading.Lock()
    left_out = shutil.ignore_patterns(".git", ".venv*", "*_cache", "__pycache__", ".coverage*")
    with tempfile.TemporaryDirectory() as folder:
        for number in range(asked.workers):
            # Names of tests may have the name of the folder in them.
            tree = Path(folder, str(number), Path(asked.root).resolve().name)
            shutil.copytree(asked.root, tree, ignore=left_out)
            trees.put(tree)

        def one(number: int) -> None:
            mutant = mutants[number]
            found = place(here, mutant)
            if found is None:
                became, words = "elsewhere", ""
            else:
                tests = chosen(covered.tests(*found), took)
                tree = trees.get()
                try:
                    became, words = tried(mutant, tree / found[0], found[1], tree, tests)
                finally:
                    trees.put(tree)
            with lock:
                known[str(number)] = {"became": became, "by": words, **asdict(mutant)}
                # Whole at any time, so that a run may be ended and continued.
                written = results.with_suffix(".part")
                written.write_text(json.dumps(known, indent=1), encoding="utf-8")
                written.replace(results)
                print(
                    f"{number:4} {became:9} {mutant.path}: {mutant.after.strip()[:90]}", flush=True
                )

        wanted = list(range(len(mutants)))
        if asked.survivors_of:
            before = json.loads(Path(asked.survivors_of).read_text("utf-8"))
            wanted = [int(n) for n, one in before.items() if one["became"] == "survived"]
        with ThreadPoolExecutor(asked.workers) as pool:
            try:
                list(pool.map(one, [n for n in wanted if str(n) not in known]))
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
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
    one.add_argument(
        "--again", nargs="+", help="what became of those to be tried again: killed, ..."
    )
    one.add_argument("--survivors-of", help="results of another suite: only what survived there")
    one.set_defaults(act=run)
    one = commands.add_parser("cover", help="print the coverage by folder")
    one.add_argument("coverage", nargs="+")
    one.set_defaults(act=cover)
    asked = parser.parse_args()
    asked.act(asked)


if __name__ == "__main__":
    main()
