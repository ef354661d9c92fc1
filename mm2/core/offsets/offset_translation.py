"""Results of offset translation: a target offset, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Translated:
    """A target offset from which no source record at or after the group's position is skipped.

    ``behind``: the maximum number of source offsets before that position whose records are read again.
    """

    offset: int
    behind: int

    @property
    def exact(self) -> bool:
        """Whether no record is read again; otherwise the offset is safe but too early."""
        return self.behind == 0

    def __str__(self) -> str:
        if self.exact:
            return f"translated to {self.offset}"
        return f"translated to {self.offset}, conservatively: up to {self.behind} source offsets will be read again"


@dataclass(frozen=True, slots=True, kw_only=True)
class TooOld:
    """The position is before the first source offset that can be translated, ``first``."""

    first: int

    def __str__(self) -> str:
        return f"too old: source offsets before {self.first} can no longer be translated"


@dataclass(frozen=True, slots=True)
class NoSync:
    """The partition has no offset sync: none of its records were copied yet, or offset syncs are not emitted."""

    def __str__(self) -> str:
        return "no offset sync for this partition yet: nothing was replicated, or offset syncs are disabled"


@dataclass(frozen=True, slots=True)
class NotReady:
    """The offset syncs have not been read to the end yet; a translation from a part of them could be stale."""

    def __str__(self) -> str:
        return "the offset syncs are still being read"


Translation = Translated | TooOld | NoSync | NotReady

NO_SYNC = NoSync()
NOT_READY = NotReady()
