"""The error that currently keeps one part of a flow from working."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from mm2.core.naming.names import Flow
from mm2.kafka.errors import NOT_YET_S, is_not_yet


class CurrentError:
    """Holds the error of one activity and logs it once per change.

    ``text`` is what users see, or None while the activity works. Before the first attempt it can contain another reason
    for waiting, such as "starting". ``cause`` is the exception behind it, if there is one.

    A first start meets topics and coordinators that are not there yet. So a warning about that is an INFO line until it
    has lasted for `mm2.kafka.errors.NOT_YET_S`; then it is logged once more.
    """

    __slots__ = ("_clock", "_level", "_log", "_logged", "_logged_level", "_not_yet_since", "cause", "flow", "text")

    def __init__(
        self,
        log: logging.Logger,
        flow: Flow,
        text: str | None = None,
        *,
        level: int = logging.WARNING,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``text``: the reason for waiting before the first attempt; it is not logged."""
        self._clock = clock
        self._not_yet_since: float | None = None
        self._logged_level = level
        self._log = log
        self.flow = flow
        self._level = level
        self._logged: str | None = text
        self.text = text
        self.cause: BaseException | None = None

    def report(self, text: str, cause: BaseException | None = None) -> None:
        """Set the error; log it unless the same text was logged last."""
        level = self._level
        if level == logging.WARNING and is_not_yet(cause):
            if self._not_yet_since is None:
                self._not_yet_since = self._clock()
            if self._clock() - self._not_yet_since < NOT_YET_S:
                level = logging.INFO
        else:
            self._not_yet_since = None
        if text != self._logged or level > self._logged_level:
            self._log.log(level, "%s: %s", self.flow, text)
            self._logged_level = level
        self.text = self._logged = text
        self.cause = cause

    def hide(self) -> None:
        """Show no error for now, but do not log the same error again when it returns.

        For an attempt that has started and does not report when it succeeded, such as following a log.
        """
        self.text = self.cause = None

    def clear(self) -> None:
        """Remove the error, because the activity works, and log the next one even if it is the same."""
        self.text = self.cause = self._logged = self._not_yet_since = None
