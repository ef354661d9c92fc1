"""The lane's side of its lease: requests it from the node and reports progress until it is revoked."""

from __future__ import annotations

import asyncio
import base64
import json
import random
import secrets
import ssl
from collections import defaultdict
from types import TracebackType

import httpx
from pydantic import TypeAdapter

from flows.lane.lease_deadline import LeaseDeadline
from flows.messages import read_message
from flows.source.fetch_limit import FetchLimit
from mm2.core.lanes.lease import (
    MAX_FAILED_RECORD_BYTES,
    FailedRecordReport,
    LaneOrders,
    LeaseEndpoint,
    LeaseGrant,
    LeaseRenewal,
    LeaseRequest,
)
from mm2.core.lanes.progress_reports import LaneProgress
from mm2.core.lanes.query_trials import FrameSpan
from mm2.core.lanes.shared_trust import restore
from mm2.core.lanes.task_states import TaskState
from mm2.core.masking import Renewed, hide
from mm2.core.naming.names import Flow
from mm2.core.settings.tls import TlsSettings
from mm2.kafka.clock import session_clock
from mm2.kafka.connection.security import ssl_context
from mm2.kafka.sasl import credential_files

_FAILED_RECORD = TypeAdapter(FailedRecordReport)
_FRAME: TypeAdapter[FrameSpan | None] = TypeAdapter(FrameSpan | None)
_GRANT = TypeAdapter(LeaseGrant)
_PROGRESS = TypeAdapter(LaneProgress)
_RENEWAL = TypeAdapter(LeaseRenewal)
_REQUEST = TypeAdapter(LeaseRequest)

REPORT_EVERY_S = 1.0
"""The node answers a report after this long unless it has new orders: dashboards and `mm2 lag` refresh once a
second."""

DRAINING_REPORT_EVERY_S = 0.1
"""Used while a source task drains, because the leader waits for the report that it has drained."""

CALL_TIMEOUT_S = 2.0
"""Timeout of a call beyond the long poll: two calls fit into what is usually left of a lease (see `FlowLease`), so that
one lost answer does not end it."""

FIRST_GRANT_WITHIN_S = 15.0
"""How long to ask for the first lease, while nothing can be copied yet."""

MESSAGE_WAIT_S = 5.0
"""The node answers within this time, with or without Spark's message for a failed record."""

TOO_LARGE_TO_ASK = f"the record is larger than {MAX_FAILED_RECORD_BYTES // 2**20} MiB, so Spark was not asked why"

MAX_QUESTIONS = 8
"""How many failed records are asked about at a time: the node passes so many on to the engine, which evaluates their
queries one after the other (`mm2.node.engine.lease_service`). Each question holds a connection for up to
`MESSAGE_WAIT_S`; more of them could use up the client's 100 connections, which the lease's renewal needs, too."""

_RETRY_S = 0.2


class LeaseLostError(Exception):
    """The lane must stop immediately: the node revoked the lease, or did not answer for the lease time."""


class LeaseClient:
    """One lane's calls to its node.

    (A) No call is made after LeaseLostError was raised.
    (B) `orders` only ever moves to a newer version.
    (C) A lease counts from the moment at which the request for it was sent.

    ``deadlines``: until when the source tasks of each flow may send anything. ``limits``: of what each source task
    fetches, as in the last answer of the node. ``first_grant_within_s``: how long to ask for the first lease, in
    seconds.
    """

    def __init__(
        self,
        place: LeaseEndpoint,
        *,
        lane: int,
        token: str,
        first_grant_within_s: float = FIRST_GRANT_WITHIN_S,
    ) -> None:
        hide(token, kind=Renewed.LANE_TOKEN)
        self._lane = lane
        self._request = LeaseRequest(token=token, nonce=secrets.token_hex(16))
        self._url = place.url
        self._client = httpx.AsyncClient(base_url=place.url, trust_env=False, verify=_trust(place))
        self._questions = asyncio.Semaphore(MAX_QUESTIONS)
        self._deadline = LeaseDeadline()
        self._deadline.renew(session_clock(), first_grant_within_s)
        self.deadlines: defaultdict[Flow, LeaseDeadline] = defaultdict(LeaseDeadline)
        self.limits: defaultdict[tuple[Flow, int], FetchLimit] = defaultdict(FetchLimit)
        self.orders = LaneOrders(version=-1)

    async def __aenter__(self) -> LeaseClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.aclose()

    async def acquire(self) -> LaneOrders:
        """Ask for the lease and return the first orders. Raises LeaseLostError if the token was used already."""
        sent, response = await self._call("PUT", "lease", _REQUEST.dump_json(self._request))
        grant = read_message(_GRANT, response.content, "lease")
        hide(grant.session, kind=Renewed.LANE_TOKEN)
        self._client.headers["Authorization"] = f"Bearer {grant.session}"
        self._renew(sent, grant.renewal)
        return self.orders

    async def report(self, progress: LaneProgress) -> LaneOrders:
        """Send progress and return the newest orders, immediately if they are new.

        Otherwise returns after REPORT_EVERY_S, or DRAINING_REPORT_EVERY_S while a source task drains. Raises
        LeaseLostError if the lease is lost.
        """
        draining = any(source_task.state is TaskState.DRAINING for source_task in progress.source_tasks)
        wait = DRAINING_REPORT_EVERY_S if draining else REPORT_EVERY_S
        sent, response = await self._call("POST", "progress", _PROGRESS.dump_json(progress), wait)
        self._renew(sent, read_message(_RENEWAL, response.content, "lease renewal"))
        return self.orders

    async def failure_of(self, topic: str, partition: int, batch: bytes) -> str | None:
        """Return Spark's message for a record of a source partition for which the query failed.

        None: Spark has not answered in time. It is not asked about records larger than `MAX_FAILED_RECORD_BYTES`.

        ``batch`` contains only this record, with its source offset as base offset. Takes up to 5 s, and waits while
        `MAX_QUESTIONS` others are not answered. Raises LeaseLostError if the lease is lost.
        """
        if len(batch) > MAX_FAILED_RECORD_BYTES:
            return TOO_LARGE_TO_ASK
        record = FailedRecordReport(topic=topic, partition=partition, batch=base64.b64encode(batch).decode())
        async with self._questions:
            _, response = await self._call("POST", "failed-record", _FAILED_RECORD.dump_json(record), MESSAGE_WAIT_S)
        message: str | None = json.loads(response.content)
        return message

    async def announce(self, frame: FrameSpan | None) -> None:
        """Tell the node that ``frame`` is about to enter the query; return when it may. None: nothing is in the query.

        The node lets announced frames of all its lanes pass one after the other. Raises LeaseLostError if the lease is
        lost.
        """
        may_enter = False
        while not may_enter:
            _, response = await self._call("POST", "frame", _FRAME.dump_json(frame), REPORT_EVERY_S)
            may_enter = json.loads(response.content)

    def _renew(self, sent: float, renewal: LeaseRenewal) -> None:
        self._deadline.renew(sent, renewal.seconds)
        for flow_lease in renewal.flows:
            self.deadlines[flow_lease.flow].renew(sent, min(flow_lease.seconds, renewal.seconds))
        shares = {(one.flow, one.source_task): one.bytes_per_second for one in renewal.fetch_shares}
        for key in shares.keys() | self.limits.keys():
            self.limits[key].set_rate(shares.get(key))
        if renewal.orders is not None and renewal.orders.version > self.orders.version:
            self.orders = restore(renewal.orders)
            credential_files.deliver(renewal.orders.credentials)

    async def _call(self, method: str, what: str, body: bytes, wait: float = 0.0) -> tuple[float, httpx.Response]:
        """Call the node, with retries until it answers or the lease has ended. Returns when the request was sent."""
        began = session_clock()
        while True:
            sent = session_clock()
            try:
                response = await self._client.request(
                    method,
                    f"/internal/lanes/{self._lane}/{what}",
                    content=body,
                    params={"wait": wait},
                    headers={"Content-Type": "application/json"},
                    timeout=max(_RETRY_S, min(CALL_TIMEOUT_S + wait, self._deadline.remaining)),
                )
            except httpx.TransportError as error:
                reason = f"{type(error).__name__} {error}".strip()
            else:
                if response.is_success:
                    return sent, response
                if response.status_code in (httpx.codes.GONE, httpx.codes.FORBIDDEN, httpx.codes.NOT_FOUND):
                    raise LeaseLostError(f"lane {self._lane}: lease revoked by the node: {response.text}")
                if response.is_client_error:  # it would be rejected again
                    raise LeaseLostError(
                        f"lane {self._lane}: the node at {self._url} rejected a request: {response.text}"
                    )
                reason = f"HTTP {response.status_code}"
            if not self._deadline.valid:
                raise LeaseLostError(
                    f"lane {self._lane}: no answer from the node at {self._url} for {session_clock() - began:.0f} s"
                    f" ({reason})"
                )
            await asyncio.sleep(_RETRY_S * random.uniform(0.5, 1.5))  # noqa: S311 jitter, not a secret


def _trust(place: LeaseEndpoint) -> ssl.SSLContext | bool:
    """Trust only the certificates in ``place``, not those of the executor's machine."""
    if place.ca_pem is None:
        return True
    return ssl_context(
        TlsSettings(
            ca_pem=place.ca_pem,
            certificate_pem=place.certificate_pem,
            key_pem=place.key_pem,
            check_hostname=place.check_hostname,
        )
    )
