"""What stands about the project in several files agrees."""

from __future__ import annotations

import re
import runpy
import sys
import tomllib
from pathlib import Path

import pytest

import ninepoint as npt

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())

yaml = pytest.importorskip("yaml")


def read(name):
    return yaml.safe_load((ROOT / name).read_text())


def test_the_version():
    assert PROJECT["project"]["version"] == npt.__version__
    assert read("CITATION.cff")["version"] == npt.__version__


def test_the_citation():
    cited = read("CITATION.cff")
    assert cited["title"] == PROJECT["project"]["name"]
    assert cited["license"] == PROJECT["project"]["license"]
    assert cited["keywords"] == PROJECT["project"]["keywords"]
    assert cited["authors"] == PROJECT["project"]["authors"]


def test_the_versions_of_python():
    least, most = re.fullmatch(
        r">=3\.(\d+),<3\.(\d+)", PROJECT["project"]["requires-python"]
    ).groups()
    versions = [f"3.{minor}" for minor in range(int(least), int(most))]
    kind = "Programming Language :: Python :: "
    named = [c.removeprefix(kind) for c in PROJECT["project"]["classifiers"] if kind + "3." in c]
    assert named == versions
    job = read(".github/workflows/ci.yml")["jobs"]["run"]
    assert job["strategy"]["matrix"]["python"] == versions
    assert PROJECT["tool"]["ruff"]["target-version"] == f"py{versions[0].replace('.', '')}"


def test_the_workflow_runs_what_has_to_pass():
    steps = read(".github/workflows/ci.yml")["jobs"]["run"]["steps"]
    assert [step["run"] for step in steps if "run" in step] == [".ci/run"]
    assert (ROOT / ".ci/run").stat().st_mode & 0o111


def test_the_workflow_makes_the_site():
    steps = read(".github/workflows/ci.yml")["jobs"]["site"]["steps"]
    assert [step["run"] for step in steps if "run" in step] == ["make docs"]


def test_groups_are_for_us_and_extras_for_users():
    groups = PROJECT["dependency-groups"]
    extras = PROJECT["project"]["optional-dependencies"]
    assert not set(groups) & set(extras)
    makefile = (ROOT / "Makefile").read_text()
    used = re.findall(r"--group (\w+)", makefile)
    assert used
    assert set(used) <= set(groups)
    named = re.findall(r"'\.\[([\w,]+)\]'", makefile)
    assert {extra for some in named for extra in some.split(",")} <= set(extras)


def test_what_needs_a_gpu_comes_only_where_it_is_asked_for():
    extras = PROJECT["project"]["optional-dependencies"]
    assert all("cupy" in one for name in ("cuda", "cuda12") for one in extras[name])
    others = [one for name, some in extras.items() if "cuda" not in name for one in some]
    assert not any("cupy" in one or "cuda" in one for one in others)
    assert not any("cupy" in one for one in PROJECT["project"]["dependencies"])


def test_forms_have_what_the_site_asks_for():
    for path in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"):
        form = yaml.safe_load(path.read_text())
        if path.name == "config.yml":
            continue
        assert {"name", "description", "body"} <= set(form), path.name
        fields = [one["id"] for one in form["body"] if one["type"] != "markdown"]
        assert len(set(fields)) == len(fields) > 0


def test_the_logo_is_what_its_script_draws(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["logo.py", str(tmp_path)])
    runpy.run_path(str(ROOT / "examples/logo.py"), run_name="__main__")
    assert (tmp_path / "logo.svg").read_text() == (ROOT / "docs/images/logo.svg").read_text()


def test_no_two_files_of_tests_have_one_name():
    """Such files run apart, and not together: pytest imports them by their names alone."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))
