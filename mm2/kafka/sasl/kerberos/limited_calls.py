"""Calls of the C library with a limit in time: it can wait minutes for a KDC that does not answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from mm2.kafka.sasl.kerberos.gss_errors import KerberosError

_Result = TypeVar("_Result")

THREAD = "kerberos-call"


class LimitedCalls:
    """Runs each call in a thread of its own, and gives it up after ``seconds``.

    A call that was given up continues; while ``most`` of them do, others fail immediately. ``principal``: for
    messages.
    """

    def __init__(self, seconds: float, most: int, principal: str) -> None:
        self._seconds = seconds
        self._free = threading.Semaphore(most)
        self._principal = principal

    def __call__(self, function: Callable[[], _Result]) -> _Result:
        """Return the result of ``function``, or raise its error. Raises KerberosError if it does not end in time."""
        return self._call(function, self._seconds)

    def together(self) -> Callable[[Callable[[], Any]], Any]:
        """Return a function as `__call__` whose calls together have the time of one."""
        left = self._seconds

        def call(function: Callable[[], Any]) -> Any:
            nonlocal left
            began = time.monotonic()
            try:
                return self._call(function, left)
            finally:
                left = max(0.0, left - (time.monotonic() - began))

        return call

    def _call(self, function: Callable[[], _Result], seconds: float) -> _Result:
        if not self._free.acquire(blocking=False):
            raise self._silent()
        future: Future[_Result] = Future()
        threading.Thread(target=self._run, args=(function, future), name=THREAD, daemon=True).start()
        try:
            return future.result(seconds)
        except TimeoutError:
            raise self._silent() from None

    def _run(self, function: Callable[[], _Result], future: Future[_Result]) -> None:
        try:
            result = function()
        except BaseException as error:  # noqa: BLE001 - raised where the result is awaited
            self._free.release()
            future.set_exception(error)
        else:
            self._free.release()
            future.set_result(result)

    def _silent(self) -> KerberosError:
        return KerberosError(
            f"no KDC answers for {self._principal} within {self._seconds:g} s: is it running and reachable? Check"
            " krb5.conf"
        )
