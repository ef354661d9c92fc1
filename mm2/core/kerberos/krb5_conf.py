"""The settings of krb5.conf that login modules need: those of [libdefaults]."""

from __future__ import annotations


def libdefault(text: str, name: str) -> str | None:
    """Return a value of [libdefaults], the first if there are several; None: not set.

    Lines are ``name = value``; comments begin with # or ; at the start of a line, as in MIT's profile library.
    """
    section = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            section = line[1:].partition("]")[0].strip()
            continue
        key, equals, value = line.partition("=")
        if section == "libdefaults" and equals and key.strip() == name:
            return value.strip().strip('"')
    return None
