"""What a source offset is on the target, or why nothing can be said; the words of `mm2.offset.translation`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Translated:
    """Reading the remote partition from ``offset`` on skips no record of the source at or after the group's position.

    ``behind``: records of at most so many source offsets before that position are read a second time.
    """

    offset: int
    behind: int

    @property
    def exact(self) -> bool:
        """True when nothing is read a second time. Otherwise the answer is conservative: right, but early."""
        return self.behind == 0

    def __str__(self) -> str:
        if self.exact:
            return f"translated to {self.offset}"
        return (
            f"translated to {self.offset}, conservatively: records of up to {self.behind} source offsets are read again"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TooOld:
    """The position lies before everything that is still known; ``first`` is the first source offset that is."""

    first: int

    def __str__(self) -> str:
        return f"too old: of source offsets before {self.first} nothing is known any more"


@dataclass(frozen=True, slots=True)
class NoSync:
    """Nothing is known of this partition: none of its records were copied yet, or offset syncs are not emitted."""

    def __str__(self) -> str:
        return "nothing of this partition was replicated yet, as far as offset syncs tell"


@dataclass(frozen=True, slots=True)
class NotReady:
    """The offset syncs have not been read to their end yet; an answer from a part of them could be stale."""

    def __str__(self) -> str:
        return "the offset syncs are still being read"


Translation = Translated | TooOld | NoSync | NotReady

NO_SYNC = NoSync()
NOT_READY = NotReady()
