"""Recognition of files that are no properties: binary, JSON or YAML, and of files without settings."""

from __future__ import annotations

import codecs
import re

from mm2.config.checks.foreign.foreign_file import ADDRESS, INSTEAD, START_FROM_EXAMPLE, ForeignFile, Settings
from mm2.config.grammar.problems import ProblemLog

BYTE_ORDER_MARK = codecs.BOM_UTF8

_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_COMMENT_OR_EMPTY = re.compile(rb"[ \t\f]*([#!\r\n]|\Z)")
_CLUSTERS = re.compile(rb"^[ \t]*clusters[ \t]*[=: \t]", re.MULTILINE)
_COMMENTS = r"\A([^\S\n]*(#.*)?\n)*"
_YAML_DOCUMENT = re.compile(rf"{_COMMENTS}---\s*$", re.MULTILINE)
_YAML_BLOCK = re.compile(r"^[\w.\"'-]+:[ \t]*(#.*)?\n([ \t]*(#.*)?\n)*( +\S|- )", re.MULTILINE)
_YAML_LIST = re.compile(rf"{_COMMENTS}- \S")


def binary(content: bytes) -> ForeignFile | None:
    """Recognise UTF-16 and other files with NUL bytes."""
    if content.startswith(_UTF_16) or (b"\0" in content and not _CLUSTERS.search(content)):
        return ForeignFile(
            "is not a text file (UTF-16?)",
            ("save the file as ASCII or ISO-8859-1 text, or check that this is the file you meant",),
        )
    return None


def json_text(text: str, _properties: Settings) -> ForeignFile | None:
    """Recognise JSON, also if it is incomplete."""
    return ForeignFile(f"is JSON{INSTEAD}", (START_FROM_EXAMPLE,)) if text.lstrip().startswith(("{", "[")) else None


def yaml_text(text: str, properties: Settings) -> ForeignFile | None:
    """Recognise YAML by its blocks: a single line ``key: value`` is also valid in a properties file."""
    if "clusters" in properties or not any(form.search(text) for form in (_YAML_DOCUMENT, _YAML_BLOCK, _YAML_LIST)):
        return None
    return ForeignFile(f"is YAML{INSTEAD}", (START_FROM_EXAMPLE,))


def no_settings(_text: str, properties: Settings) -> ForeignFile | None:
    """Recognise an empty file, or one that contains nothing but comments."""
    if properties:
        return None
    lines = ("clusters = A, B", *(f"{alias}.bootstrap.servers = {ADDRESS}" for alias in "AB"), "A->B.enabled = true")
    return ForeignFile("contains no settings", (), lines, f"{START_FROM_EXAMPLE}, or write these lines:")


def without_byte_order_mark(content: bytes, problems: ProblemLog) -> bytes:
    """Return ``content`` without a byte order mark, which is reported.

    Java reads the mark as part of the first line. That is harmless if the line is a comment or empty.
    """
    if not content.startswith(BYTE_ORDER_MARK):
        return content
    rest = content.removeprefix(BYTE_ORDER_MARK)
    rule, fix = (
        "starts with a byte order mark (BOM), which Java reads as part of the first line",
        "save the file without BOM",
    )
    report = problems.warning if _COMMENT_OR_EMPTY.match(rest) else problems.error
    report(rule, fix)
    return rest
