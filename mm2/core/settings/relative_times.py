"""Texts that Spark reads as a time that depends on when it reads them."""

from __future__ import annotations

import re

_WORD = re.compile(r"\s*(now|today|tomorrow|yesterday)(?![a-z])", re.IGNORECASE)
"""As in Spark's SparkDateTimeUtils.extractSpecialValue; a time zone can follow. ``epoch`` is fixed."""

_TIME_OF_DAY = re.compile(r"\s*T?\d{1,2}:", re.IGNORECASE)
"""As in Spark's SparkDateTimeUtils.parseTimestampString: without a date it is a time of the current day."""


def is_relative_time(text: str) -> bool:
    """Return whether ``text``, as a date or timestamp, depends on the current time."""
    return _WORD.match(text) is not None or _TIME_OF_DAY.match(text) is not None
