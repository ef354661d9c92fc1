"""What keeps a part of a flow from its work: a sentence that is shown as long as it lasts, and logged once."""

from __future__ import annotations

import logging

from mm2.core.names import Flow

LASTING_S = 60.0
"""What went well for so long and fails then is another trouble, and is tried again soon."""


def troubled(log: logging.Logger, flow: Flow, before: str | None, sentence: str) -> str:
    """The trouble of now, a warning unless it is the same as ``before``."""
    if sentence != before:
        log.warning("%s: %s", flow, sentence)
    return sentence
