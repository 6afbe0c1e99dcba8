"""Budget: how many tokens each package may have, as pyproject.toml says: part of `make lint`.

Tokens are those of Python's tokenizer without comments, docstrings, line ends and indentation, so
that neither layout nor prose changes them.  A budget goes down with its package; who needs more
says in the commit why.
"""

import ast
import sys
import tokenize
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

LAYOUT = frozenset({
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENCODING, tokenize.ENDMARKER,
})  # fmt: skip


def tokens(path: Path) -> int:
    """How many tokens a module has."""
    docstrings = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                docstrings.add((first.lineno, first.col_offset))
    count = depth = 0
    with path.open("rb") as file:
        for one in tokenize.tokenize(file.readline):
            # From Python 3.12 on a formatted string is many tokens; it counts as one, as before.
            name = tokenize.tok_name[one.type]
            count += not depth and one.type not in LAYOUT and one.start not in docstrings
            depth += name.endswith("STRING_START") - name.endswith("STRING_END")
    return count


def main() -> int:
    """Compare every package with its budget; 1 if one has more, or is given none."""
    source = ROOT / "src" / "ninepoint"
    with (ROOT / "pyproject.toml").open("rb") as file:
        budget = tomllib.load(file)["tool"]["ninepoint"]["budget"]
    found: Counter[str] = Counter()
    for path in source.rglob("*.py"):
        found[path.parent.relative_to(source.parent).as_posix()] += tokens(path)
    wrong = [
        f"{package} has {count:,} tokens, and its budget is {budget.get(package, 0):,}."
        for package, count in sorted(found.items())
        if count > budget.get(package, 0)
    ]
    wrong += [
        f"{package} has a budget and no module." for package in budget if package not in found
    ]
    print("\n".join(wrong) or f"{found.total():,} tokens, within the budget.")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
