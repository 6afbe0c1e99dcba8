"""Check that every link of a built site leads to a page and a place that are there.

python docs/check_links.py FOLDER
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """What a page links to, and the places in it that can be linked to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.places: set[str] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value is not None:
                self.links.add(value)
            elif name in ("id", "name") and value is not None:
                self.places.add(value)


def broken(folder: Path) -> Iterator[str]:
    """Every link to something of the site that is not there."""
    # What the theme brings with it is its own business.
    files = (path for path in folder.rglob("*.html") if "_static" not in path.parts)
    pages = {path: Page(path) for path in sorted(files)}
    for path, page in pages.items():
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or link == "#":
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            if not target.exists():
                yield f"{path.relative_to(folder)}: {link} leads to no file"
            elif (
                parts.fragment
                and target in pages
                and unquote(parts.fragment) not in pages[target].places
            ):
                yield f"{path.relative_to(folder)}: {link} leads to no place of that page"


def main(folder: Path) -> None:
    """Print what is broken; the exit code is 1 if anything is."""
    found = list(broken(folder.resolve()))
    print("\n".join(found) if found else "all links within the site lead somewhere")
    sys.exit(bool(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
