"""The error that currently keeps one part of a flow from working."""

from __future__ import annotations

import logging

from mm2.core.naming.names import Flow


class CurrentError:
    """Holds the error of one activity and logs it once per change.

    ``text`` is what users see, or None while the activity works. Before the first attempt it can contain another reason
    for waiting, such as "starting". ``cause`` is the exception behind it, if there is one.
    """

    __slots__ = ("_level", "_log", "_logged", "cause", "flow", "text")

    def __init__(
        self, log: logging.Logger, flow: Flow, text: str | None = None, *, level: int = logging.WARNING
    ) -> None:
        """``text``: the reason for waiting before the first attempt; it is not logged."""
        self._log = log
        self.flow = flow
        self._level = level
        self._logged: str | None = text
        self.text = text
        self.cause: BaseException | None = None

    def report(self, text: str, cause: BaseException | None = None) -> None:
        """Set the error; log it unless the same text was logged last."""
        if text != self._logged:
            self._log.log(self._level, "%s: %s", self.flow, text)
        self.text = self._logged = text
        self.cause = cause

    def hide(self) -> None:
        """Show no error for now, but do not log the same error again when it returns.

        For an attempt that has started and does not report when it succeeded, such as following a log.
        """
        self.text = self.cause = None

    def clear(self) -> None:
        """Remove the error, because the activity works, and log the next one even if it is the same."""
        self.text = self.cause = self._logged = None
