"""Writes mm2/config/checks/spark_names.py, the names of Spark's settings, after a change of Spark's version.

``make spark-keys`` runs it. Spark has no list of them: many are only texts in its code. So the names are those texts of
the jars that look like one, which includes removed and internal ones. A few texts more only mean that fewer typing
errors are found.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path
from zipfile import ZipFile

import pyspark

from mm2.config.checks import key_rules

FILE = Path(key_rules.__file__).with_name("spark_names.py")
COMMAND = "make spark-keys"

_NAME = re.compile(rb"spark(?:\.[A-Za-z][A-Za-z0-9_-]*)+")
_GROUPED_FROM = 12
"""Names with a common second part that get a prefix of their own in the module."""

_TEXT, _WIDE = 1, (5, 6)
_SIZES = {**dict.fromkeys((3, 4, 9, 10, 11, 12, 17, 18), 5), **dict.fromkeys(_WIDE, 9)}
_SIZES |= {**dict.fromkeys((7, 8, 16, 19, 20), 3), 15: 4}
"""Bytes of the entries of a constant pool, by their tag (Java Virtual Machine Specification, 4.4)."""


@cache
def names() -> frozenset[str]:
    """Return the names of the settings of the installed Spark."""
    found: set[str] = set()
    for jar in (Path(pyspark.__file__).parent / "jars").glob("spark-*.jar"):
        with ZipFile(jar) as archive:
            for entry in archive.namelist():
                if entry.endswith(".class") and b"spark." in (content := archive.read(entry)):
                    found |= {text.decode() for text in texts(content) if _NAME.fullmatch(text)}
    return frozenset(found)


def texts(content: bytes) -> Iterator[bytes]:
    """Yield the texts in the constant pool of a class file."""
    count, position, index = int.from_bytes(content[8:10]), 10, 1
    while index < count:
        tag = content[position]
        if tag == _TEXT:
            end = position + 3 + int.from_bytes(content[position + 1 : position + 3])
            yield content[position + 3 : end]
            position = end
        else:
            position += _SIZES[tag]
        index += 2 if tag in _WIDE else 1


def module(of_version: str, found: Iterable[str]) -> str:
    """Return the text of `FILE`, for a version of Spark."""
    groups: dict[str, list[str]] = {}
    for name in sorted(found):
        first, second, *rest = name.split(".")
        groups.setdefault(f"{first}.{second}." if rest else "spark.", []).append(name)
    small = {prefix for prefix, those in groups.items() if len(those) < _GROUPED_FROM} | {"spark."}
    grouped: dict[str, list[str]] = {"spark.": sorted(name for prefix in small for name in groups.get(prefix, ()))}
    grouped |= {prefix: those for prefix, those in groups.items() if prefix not in small}
    parts = [
        f'"""Names of the settings of Spark {of_version}, by prefix. Written by `{COMMAND}`."""\n\n'
        "from __future__ import annotations\n\nfrom collections.abc import Mapping\n\n"
        "NAMES: Mapping[str, str] = {\n"
    ]
    for prefix, those in grouped.items():
        text = " ".join(name.removeprefix(prefix) for name in those)
        lines = textwrap.fill(
            text, 120, initial_indent=" " * 8, subsequent_indent=" " * 8, break_on_hyphens=False, break_long_words=False
        )
        parts.append(f'    "{prefix}": """\n{lines}\n    """,\n')
    return "".join([*parts, "}\n"])


def main() -> None:
    """Write the list."""
    found = names()
    FILE.write_text(module(version("pyspark"), found), "utf-8")
    print(f"{FILE.name}: {len(found)} names")


if __name__ == "__main__":
    main()
