"""MkDocs hooks that add files outside docs/ to the site, so that links to them work there as in a checkout."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]

PAGES = {
    "CONTRIBUTING.md": "contributing/index.md",
    "CHANGELOG.md": "reference/changelog.md",
    "mm2.properties.example": "mm2.properties.example",
}
"""Paths in the repository and on the site."""

FILES = ("deploy",)
"""Directories whose files keep their path on the site."""

_LINK = re.compile(r"(?<=\]\()(?!https?:|mailto:|#)(?P<path>[^)#\s]+)")


def on_files(files: Files, config: Any) -> Files:
    """Add the files outside docs/ to the site."""
    for source, target in PAGES.items():
        files.append(File.generated(config, target, content=(ROOT / source).read_text("utf-8")))
    for directory in FILES:
        for path in sorted(path for path in (ROOT / directory).rglob("*") if path.is_file()):
            files.append(File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Return the page with its links relative to its place on the site instead of its place in the repository."""
    on_site = page.file.src_uri
    in_repository = next((source for source, target in PAGES.items() if target == on_site), f"docs/{on_site}")

    def on_the_site(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(in_repository), link["path"]))
        target = PAGES.get(path) or path.removeprefix("docs/")
        return posixpath.relpath(target, posixpath.dirname(on_site) or ".")

    return _LINK.sub(on_the_site, markdown)
