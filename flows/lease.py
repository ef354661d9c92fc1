"""The lane's side of a lease: asks the node for the right to run, reports until it is taken away (design: leases)."""

from __future__ import annotations

import asyncio
import os
import random
import ssl
import time
from types import TracebackType

import httpx
from pydantic import TypeAdapter

from mm2.core.client_settings import TlsSettings
from mm2.core.lease import LaneOrders, LaneProgress, LeaseGrant, LeasePlace, LeaseRequest, TaskState
from mm2.kafka.security import ssl_context

_GRANT = TypeAdapter(LeaseGrant)
_ORDERS = TypeAdapter(LaneOrders)
_PROGRESS = TypeAdapter(LaneProgress)
_REQUEST = TypeAdapter(LeaseRequest)

REPORT_EVERY_S = 1.0
"""The node holds a report this long unless it has news: once a second is what dashboards and `mm2 lag` refresh at."""

DRAINING_REPORT_EVERY_S = 0.1
"""While a slot drains somebody waits for the word that it is done."""

CALL_TIMEOUT_S = 5.0
"""One call's limit beyond the long poll; three of them fit into the lease time, so one slow answer costs no lease."""

_RETRY_S = 0.2


class LeaseLostError(Exception):
    """The lane must stop at once: the node gave the lease to another run, or was not heard of for the lease time."""


class Lease:
    """One lane's conversation with its node.

    Invariants: (A) no call is made after LeaseLostError was raised. (B) `orders` only ever moves to a newer version.
    """

    def __init__(self, place: LeasePlace, *, lane: int, token: str, attempt: int) -> None:
        self._lane = lane
        self._request = LeaseRequest(token=token, attempt=attempt, pid=os.getpid())
        self._url = place.url
        self._client = httpx.AsyncClient(
            base_url=place.url, timeout=CALL_TIMEOUT_S + REPORT_EVERY_S, trust_env=False, verify=_trust(place)
        )
        self._lease_seconds = CALL_TIMEOUT_S * 3
        self._heard_at = time.monotonic()
        self.orders = LaneOrders(version=-1)

    async def __aenter__(self) -> Lease:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.aclose()

    async def acquire(self) -> LaneOrders:
        """Ask for the lease and return the first orders. Raises LeaseLostError when a newer attempt has it."""
        response = await self._call("PUT", "lease", _REQUEST.dump_json(self._request))
        grant = _GRANT.validate_json(response.content)
        self._lease_seconds = grant.lease_seconds
        self._client.headers["Authorization"] = f"Bearer {grant.session}"
        self.orders = grant.orders
        return self.orders

    async def report(self, progress: LaneProgress) -> LaneOrders:
        """Send progress and return the newest orders, at once when they are new, else after REPORT_EVERY_S (while
        something drains, DRAINING_REPORT_EVERY_S). Raises LeaseLostError when the lease is gone.
        """
        draining = any(slot.state is TaskState.DRAINING for slot in progress.slots)
        wait = DRAINING_REPORT_EVERY_S if draining else REPORT_EVERY_S
        response = await self._call("POST", "progress", _PROGRESS.dump_json(progress), wait)
        if response.status_code == httpx.codes.OK:
            orders = _ORDERS.validate_json(response.content)
            if orders.version > self.orders.version:
                self.orders = orders
        return self.orders

    async def _call(self, method: str, what: str, body: bytes, wait: float = 0.0) -> httpx.Response:
        """One call, repeated until it is answered or the lease time has passed without an answer."""
        while True:
            try:
                response = await self._client.request(
                    method,
                    f"/internal/lanes/{self._lane}/{what}",
                    content=body,
                    params={"wait": wait},
                    headers={"Content-Type": "application/json"},
                )
            except httpx.TransportError as error:
                trouble = f"{type(error).__name__} {error}".strip()
            else:
                if response.is_success:
                    self._heard_at = time.monotonic()
                    return response
                if response.status_code in (httpx.codes.GONE, httpx.codes.FORBIDDEN, httpx.codes.NOT_FOUND):
                    raise LeaseLostError(f"lane {self._lane}: the node gave its lease away: {response.text}")
                if response.is_client_error:  # it would say the same again
                    raise LeaseLostError(f"lane {self._lane}: {self._url} refuses what it says: {response.text}")
                trouble = f"HTTP {response.status_code}"
            silent = time.monotonic() - self._heard_at
            if silent >= self._lease_seconds:
                raise LeaseLostError(
                    f"lane {self._lane}: no answer from the node at {self._url} for {silent:.0f} s ({trouble})"
                )
            await asyncio.sleep(_RETRY_S * random.uniform(0.5, 1.5))  # noqa: S311 jitter, not a secret


def _trust(place: LeasePlace) -> ssl.SSLContext | bool:
    """Those certificates alone that came with the place: what an executor's machine trusts besides is not asked."""
    if place.ca_pem is None:
        return True
    return ssl_context(TlsSettings(ca_pem=place.ca_pem, check_hostname=place.check_hostname))
