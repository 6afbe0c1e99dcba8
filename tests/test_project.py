"""What stands about the project in several files agrees."""

import re
import tomllib
from pathlib import Path

import pytest

import ninepoint as npt

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())

yaml = pytest.importorskip("yaml")


def read(name):
    return yaml.safe_load((ROOT / name).read_text())


def test_the_citation_the_versions_and_what_the_workflow_runs():
    cited, project = read("CITATION.cff"), PROJECT["project"]
    assert "version" in project["dynamic"]
    assert cited["version"] == npt.__version__
    assert cited["title"] == project["name"]
    assert [cited[key] for key in ("license", "keywords", "authors")] == [
        project[key] for key in ("license", "keywords", "authors")
    ]
    kind = "Programming Language :: Python :: "
    classifiers = PROJECT["project"]["classifiers"]
    versions = [c.removeprefix(kind) for c in classifiers if kind + "3." in c]
    assert PROJECT["project"]["requires-python"] == f">={versions[0]}"
    jobs = read(".github/workflows/ci.yml")["jobs"]
    assert jobs["run"]["strategy"]["matrix"]["python"] == versions
    for name, command in (("run", ".ci/run"), ("site", "make docs")):
        assert [step["run"] for step in jobs[name]["steps"] if "run" in step] == [command]
    assert (ROOT / ".ci/run").stat().st_mode & 0o111


def test_groups_extras_forms_and_names_of_files_of_tests():
    groups = PROJECT["dependency-groups"]
    extras = PROJECT["project"]["optional-dependencies"]
    assert not set(groups) & set(extras)
    makefile = (ROOT / "Makefile").read_text()
    used = re.findall(r"--group (\w+)", makefile)
    assert used
    assert set(used) <= set(groups)
    named = re.findall(r"'\.\[([\w,]+)\]'", makefile)
    assert {extra for some in named for extra in some.split(",")} <= set(extras)
    project = PROJECT["project"]
    for name, some in {**project["optional-dependencies"], "": project["dependencies"]}.items():
        assert all(("cupy" in one or "cuda" in one) == ("cuda" in name) for one in some)
    for path in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"):
        form = yaml.safe_load(path.read_text())
        if path.name == "config.yml":
            continue
        assert {"name", "description", "body"} <= set(form), path.name
        fields = [one["id"] for one in form["body"] if one["type"] != "markdown"]
        assert len(set(fields)) == len(fields) > 0
    # Such files run apart, and not together: pytest imports them by their names alone.
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))
