"""Examples of what a ``fix:`` says that no program can do from its words: ``NAME.repairs`` beside ``NAME.properties``.

The file, in UTF-8::

    # a comment
    [KEY] the first line of the fix     KEY: the problem's; empty if it is about the whole file
        KEY = VALUE                     the line of the key, or a new one at the end
        - KEY                           the key's line is removed
        OLD ==> NEW                     text that is replaced, everywhere in the file
        $ NAME = VALUE                  an environment variable
        path DIRECTORY                  a directory that is added to PYTHONPATH
        copy FILE                       the whole content: that of another file
        write FILE                      what follows after | are its lines; without FILE, those of the file itself
            | line

A fix with several alternatives has a block for each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Repair:
    """One block: what is done, line by line."""

    key: str
    fix: str
    steps: list[str] = field(default_factory=list)

    @property
    def written(self) -> dict[str, str]:
        """Return the content of each file that is written, without a line end at its end, by its path; the path of the
        file itself is empty."""
        files: dict[str, list[str]] = {}
        name = ""
        for step in self.steps:
            if step.split(" ")[0] == "write":
                name = step.removeprefix("write").strip()
                files[name] = []
            elif step.lstrip().startswith("|"):
                files[name].append(step.lstrip().removeprefix("|").removeprefix(" "))
        return {path: "\n".join(lines) for path, lines in files.items()}

    @property
    def environment(self) -> dict[str, str]:
        pairs = (step.removeprefix("$ ").partition(" = ") for step in self.steps if step.startswith("$ "))
        return {name: value for name, _, value in pairs}

    @property
    def directories(self) -> tuple[str, ...]:
        return tuple(step.removeprefix("path ") for step in self.steps if step.startswith("path "))

    @property
    def copied(self) -> str:
        """Return the path of the file whose content is copied; empty: none."""
        return next((step.removeprefix("copy ") for step in self.steps if step.startswith("copy ")), "")

    @property
    def replaced(self) -> Iterator[tuple[str, str]]:
        for step in self.steps:
            old, arrow, new = step.partition(" ==>")
            if arrow:
                yield old, new.removeprefix(" ")

    @property
    def removed(self) -> tuple[str, ...]:
        return tuple(step.removeprefix("- ") for step in self.steps if step.startswith("- "))

    @property
    def lines(self) -> Iterator[tuple[str, str]]:
        """Yield key and value of each line of the file that is replaced or added."""
        for step in self.steps:
            other = step.startswith(("- ", "$ ", "path ", "copy ", "|")) or step.lstrip().startswith("|")
            if not other and " ==>" not in step and step.split(" ")[0] != "write":
                key, equals, value = step.partition(" =")
                assert equals, step
                yield key, value.removeprefix(" ")


def read(path: Path) -> list[Repair]:
    """Return the blocks of a file; none if it does not exist."""
    found: list[Repair] = []
    for line in path.read_text("utf-8").splitlines() if path.exists() else ():
        if line.startswith("["):
            key, _, fix = line.removeprefix("[").partition("] ")
            found.append(Repair(key, fix))
        elif line.startswith("    "):
            found[-1].steps.append(line[4:])
        else:
            assert not line or line.startswith("#"), line
    return found
