"""Requests to the other nodes of a flow, for endpoints that show the flow as a whole.

A flow with a single node causes no requests.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Generic, TypeVar

from mm2.core.naming.names import Flow
from mm2.node.status.status_model import FlowStatus, MemberStatus, NodeStatus
from mm2.rest.internal.peers import LARGEST_BYTES, PeerError, PeerRequest, Peers
from mm2.rest.internal.signed_calls import LeaderContexts

ROTATION_PAUSE_S = 0.2
"""A new session key reaches all nodes through the config topic within a few hundredths of a second."""

ROTATION_WITHIN_S = 2.0

NO_URL = "it has no listeners"

_Share = TypeVar("_Share")
_Share_co = TypeVar("_Share_co", covariant=True)


class UnreadableShareError(Exception):
    """The response of another node is not a share; the message contains its URL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareRequest(Generic[_Share_co]):
    """A kind of state that nodes of a flow request from each other: ``GET /{source}/{target}/mm2/{name}``, signed.

    ``read`` parses the response of another node, in a worker thread; it raises UnreadableShareError. A response of more
    than ``largest`` bytes is rejected. ``fresh_s``: seconds for which responses are shared between callers; 0: each
    caller sends requests.
    """

    name: str
    read: Callable[[bytes, MemberStatus], _Share_co]
    timeout_s: float
    fresh_s: float = 0.0
    largest: int = LARGEST_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareType(ShareRequest[_Share_co]):
    """State of a whole flow. ``dump`` creates this node's response, in a worker thread."""

    dump: Callable[[NodeStatus, FlowStatus], bytes]


@dataclass(frozen=True, slots=True)
class _Round:
    """One round of requests to the other nodes of a flow. ``asked``: their node IDs and URLs."""

    began: float
    asked: tuple[tuple[str, str], ...]
    answers: asyncio.Task[dict[str, Any]]


class ClusterView:
    """Requests shares from the other nodes. Used on one event loop; ``clock`` returns monotonic seconds.

    ``timeout_s``: how long to wait for every kind of share, instead of as long as each kind says.
    """

    def __init__(
        self,
        leader_contexts: LeaderContexts,
        peers: Peers,
        *,
        timeout_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._leader_contexts = leader_contexts
        self._peers = peers
        self._timeout_s = timeout_s
        self._clock = clock
        self._rounds: dict[tuple[str, str], _Round] = {}
        self._asking: set[asyncio.Task[dict[str, Any]]] = set()

    async def shares(
        self, kind: ShareRequest[_Share], status: NodeStatus, flow: FlowStatus, *path: str
    ) -> Mapping[str, _Share | str]:
        """Return the shares of the flow's other nodes by node ID, or the reason why there is none.

        ``path`` follows the name in the URL; with one, each caller sends requests.
        """
        members = [member for member in flow.members if member.node != status.node_id]
        if not members:
            return {}
        if path or not kind.fresh_s:
            return await self._ask(kind, flow, members, path)
        return await asyncio.shield(self._round(kind, flow, members))  # other callers wait for it too

    async def close(self) -> None:
        """Cancel all requests."""
        for task in self._asking:
            task.cancel()
        await asyncio.gather(*self._asking, return_exceptions=True)

    def _round(
        self, kind: ShareRequest[_Share], flow: FlowStatus, members: Sequence[MemberStatus]
    ) -> asyncio.Task[dict[str, Any]]:
        key, asked = (kind.name, flow.flow), tuple((member.node, member.url) for member in members)
        last, now = self._rounds.get(key), self._clock()
        if last is not None and last.asked == asked and (not last.answers.done() or now - last.began < kind.fresh_s):
            return last.answers
        task = asyncio.create_task(self._ask(kind, flow, members), name=f"{flow.flow} request {kind.name}")
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)
        self._rounds[key] = _Round(now, asked, task)
        return task

    async def _ask(
        self, kind: ShareRequest[_Share], flow: FlowStatus, members: Sequence[MemberStatus], path: tuple[str, ...] = ()
    ) -> dict[str, _Share | str]:
        requests = [self._share(kind, flow, member, path) for member in members]
        answers = await asyncio.gather(*requests)
        return {member.node: answer for member, answer in zip(members, answers, strict=True)}

    async def _share(
        self, kind: ShareRequest[_Share], flow: FlowStatus, member: MemberStatus, path: tuple[str, ...]
    ) -> _Share | str:
        body = await self._body(kind, Flow(flow.source, flow.target), member, path)
        if isinstance(body, str):
            return body
        try:
            return await asyncio.to_thread(kind.read, body, member)
        except UnreadableShareError as error:
            return str(error)

    async def _body(
        self, kind: ShareRequest[_Share], flow: Flow, member: MemberStatus, path: tuple[str, ...]
    ) -> bytes | str:
        """Return the response of a member, or why there is none."""
        if not member.url:
            return NO_URL
        began = self._clock()
        request = PeerRequest(method="GET", path=("mm2", kind.name, *path), largest=kind.largest)
        timeout_s = kind.timeout_s if self._timeout_s is None else self._timeout_s
        last = f"{member.url} did not answer within {timeout_s:.0f} s"
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    leader_context = self._leader_contexts(flow.source, flow.target)
                    if leader_context is None:
                        return f"{flow} was stopped on this node"
                    try:
                        return await self._peers.ask(member.url, leader_context, request)
                    except PeerError as error:
                        last = str(error)
                        if error.status != HTTPStatus.FORBIDDEN or self._clock() - began > ROTATION_WITHIN_S:
                            return last
                    await asyncio.sleep(ROTATION_PAUSE_S)  # one of the two nodes has not read the new session key yet
        except TimeoutError:
            return last
