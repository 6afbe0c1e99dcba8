"""How Sphinx makes the documentation site of these pages; `make docs` runs it."""

from __future__ import annotations

import os
import re
import urllib.error
import urllib.request
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util import logging

import ninepoint

HERE = Path(__file__).parent
GENERATED = HERE / "generated"

project = "ninepoint"
author = "The ninepoint developers"
copyright = author
version = release = ninepoint.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.viewcode",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]

# The index of sphinx-gallery holds small pictures; gallery.md, which people read elsewhere too,
# holds large ones.
exclude_patterns = ["generated/gallery/index.rst", "generated/backreferences"]
templates_path = ["templates"]

# Markdown: headings can be linked to, as on the pages that hosts of repositories make.
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "tasklist"]

# The reference is made of the docstrings, which name types in words.
autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
# The class stands above its members, and the column beside the page is narrow.
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
default_role = "py:obj"

# Compiled kernels of the gallery stay between builds, beside what is made of them.
os.environ.setdefault("NINEPOINT_CACHE_DIR", str(GENERATED / "kernels"))
os.environ.setdefault("NINEPOINT_QUIET", "1")

sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "generated/gallery",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "backreferences_dir": "generated/backreferences",
    "doc_module": ("ninepoint",),
    "download_all_examples": False,
    "min_reported_time": 0,
    "write_computation_times": False,
}

html_theme = "pydata_sphinx_theme"
html_title = "ninepoint"
html_favicon = "images/logo.svg"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_sidebars = {"index": [], "start": [], "tutorial": [], "changelog": []}
html_theme_options = {
    "logo": {
        "text": "ninepoint",
        "image_light": "images/logo.svg",
        "image_dark": "images/logo.svg",
    },
    "navbar_align": "left",
    "header_links_before_dropdown": 9,
    "navigation_with_keys": False,
    "show_toc_level": 2,
    # Wide tables and few headings.
    "secondary_sidebar_items": {"**": ["page-toc"], "benchmarks": []},
    "footer_start": ["copyright"],
    "footer_end": [],
    "back_to_top_button": True,
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

_ELSEWHERE = {
    "python": "https://docs.python.org/3/",
    "numpy": "https://numpy.org/doc/stable/",
    "scipy": "https://docs.scipy.org/doc/scipy/",
    "dask": "https://docs.dask.org/en/stable/",
    "xarray": "https://docs.xarray.dev/en/stable/",
    "numba": "https://numba.readthedocs.io/en/stable/",
}


def _reachable(pages: dict[str, str]) -> dict[str, tuple[str, str]]:
    """The lists of names of other projects, fetched once; those that cannot be had are left out.

    A build without a network has no links to them, and is whole otherwise.
    """
    folder = GENERATED / "inventories"
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for name, page in pages.items():
        file = folder / f"{name}.inv"
        if not file.exists():
            try:
                with urllib.request.urlopen(f"{page}objects.inv", timeout=5) as answer:
                    file.write_bytes(answer.read())
            except (urllib.error.URLError, OSError) as error:
                _LOG.info("no links to %s: %s", page, error)
                continue
        found[name] = (page, str(file))
    return found


_LOG = logging.getLogger(__name__)
intersphinx_mapping = _reachable(_ELSEWHERE)

# Files beside this folder that have pages here: those include them, and links lead there.
_INCLUDED = re.compile(r"^```\{include\} \.\./(\w+\.md)\n```$", re.MULTILINE)
_LINKS = (
    # A folder has no page: its name stays, without a link.
    (re.compile(r"\[([^\]]*)\]\((?:\.\./)+(?:\w+/)*\w+/?\)"), r"\1"),
    (re.compile(r"\]\((?:\.\./)+examples/gallery/(\w+)\.py\)"), r"](/generated/gallery/\1.rst)"),
    *(
        (re.compile(rf"\]\((?:\.\./)*{file}(#[\w-]+)?\)"), rf"](/{page}.md\1)")
        for file, page in {
            "CONTRIBUTING.md": "contributing",
            "CHANGELOG.md": "changelog",
            "CODE_OF_CONDUCT.md": "conduct",
            "SECURITY.md": "security",
            "RELEASING.md": "releasing",
        }.items()
    ),
)


def _for_the_site(app: Sphinx, name: str, text: list[str]) -> None:
    """Make links to files of the repository links to the pages that are made of them."""

    def file(found: re.Match[str]) -> str:
        return (HERE.parent / found[1]).read_text().replace("](docs/", "](/")

    text[0] = _INCLUDED.sub(file, text[0])
    for pattern, page in _LINKS:
        text[0] = pattern.sub(page, text[0])
    if name == "gallery":
        programs = re.findall(r"\(/(generated/gallery/\w+)\.rst\)", text[0])
        text[0] += "\n".join(["", "```{toctree}", ":hidden:", "", *programs, "```", ""])


# Nobody makes these by hand: a decorator does, or a call.
_MADE = {f"ninepoint.{name}" for name in ("Stencil", "Ufunc", "Gufunc", "Lazy", "Measurement")}


def _for_readers(
    app: Sphinx,
    what: str,
    name: str,
    obj: object,
    options: object,
    signature: str | None,
    more: str,
) -> tuple[str | None, str]:
    """Leave out the signature of what nobody calls to make one."""
    if name in _MADE:
        return "", more
    return signature, more


def setup(app: Sphinx) -> None:
    """Add to Sphinx what is written here."""
    app.connect("source-read", _for_the_site)
    app.connect("autodoc-process-signature", _for_readers)
