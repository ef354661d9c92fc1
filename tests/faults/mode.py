"""The columns of the fault table: ours and Java's MirrorMaker 2, each at-least-once and exactly-once."""

from __future__ import annotations

import os
from dataclasses import dataclass

import pytest

INTERNAL_REST = {"dedicated.mode.enable.internal.rest": "true"}  # exactly-once requires it of several nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """Which program copies, and what it guarantees. ``name`` is what ``MODE=`` of ``make faults`` selects."""

    name: str
    java: bool = False
    exactly_once: bool = False

    def __str__(self) -> str:
        return self.name

    def properties(self, source: str = "A", target: str = "B") -> dict[str, str]:
        """Return the properties of the flow between these clusters in every node's file."""
        found = dict(INTERNAL_REST) if self.exactly_once or self.java else {}
        if self.exactly_once:
            found |= {
                f"{target}.exactly.once.source.support": "enabled",
                f"{source}.consumer.isolation.level": "read_committed",
            }
        return found

    @property
    def repeats_allowed(self) -> bool:
        """Whether a fault may repeat records."""
        return not self.exactly_once


AT_LEAST_ONCE = Mode(name="at-least-once")
EXACTLY_ONCE = Mode(name="exactly-once", exactly_once=True)
JAVA_AT_LEAST_ONCE = Mode(name="java-at-least-once", java=True)
JAVA_EXACTLY_ONCE = Mode(name="java-exactly-once", java=True, exactly_once=True)

MODES = (AT_LEAST_ONCE, EXACTLY_ONCE, JAVA_AT_LEAST_ONCE, JAVA_EXACTLY_ONCE)
OURS = tuple(mode for mode in MODES if not mode.java)
SHORT_AND_LONG = (AT_LEAST_ONCE, pytest.param(EXACTLY_ONCE, marks=pytest.mark.long))  # of a test that is not long

SELECTED_MODE = os.environ.get("MM2_MODE", "")
SELECTED_ROW = os.environ.get("MM2_ROW", "")


def slug(name: str) -> str:
    """``node killed`` to ``node-killed``: what ``ROW=`` of ``make faults`` selects."""
    return name.lower().replace(" ", "-")
