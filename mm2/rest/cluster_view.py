"""The flows of a node as a whole: asks the flows' other nodes for their shares, and remembers the answers for a moment.

A flow that one node runs costs nothing here: nobody is asked.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus

from pydantic import ValidationError

from mm2.core.names import Flow
from mm2.node.published import FlowStatus, MemberStatus, NodeStatus
from mm2.rest.group_shares import GroupShare, GroupsUnreadableError, is_due, read_groups
from mm2.rest.peers import PeerError, PeerRequest, Peers
from mm2.rest.share_calls import GROUPS, STATUS
from mm2.rest.shares import SHARE, Answers, Share, unseen
from mm2.rest.signed_calls import Standings

SHARE_WITHIN_S = 2.0
"""A node with 10,000 partitions answers in 0.2 s, over any link in less than one: whoever looks does not wait long for
one that is gone."""

GROUPS_WITHIN_S = 15.0
"""100,000 partitions in all groups take 2 s of CPU and 30 MB, which a link has to carry."""

LARGEST_GROUPS_BYTES = 128 * 1024 * 1024
"""Four times what those are."""

FRESH_S = 1.0
"""Nodes publish once a second: so long an answer serves everybody who asks."""

ROTATION_PAUSE_S = 0.2
"""A new session key comes to all nodes by the config topic, in a few hundredths of a second each."""

NO_URL = "it has no listeners that other nodes could ask"


@dataclass(frozen=True, slots=True)
class _Round:
    """One time of asking the other nodes of a flow. ``asked``: their ids and URLs."""

    began: float
    asked: tuple[tuple[str, str], ...]
    answers: asyncio.Task[Answers]


class ClusterView:
    """``standings`` are the node's own. Used on one event loop; ``clock`` gives monotonic seconds."""

    def __init__(self, standings: Standings, peers: Peers, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._standings = standings
        self._peers = peers
        self._clock = clock
        self._rounds: dict[Flow, _Round] = {}
        self._asking: set[asyncio.Task[Answers]] = set()

    async def answers(self, status: NodeStatus) -> Mapping[Flow, Answers]:
        """What the other nodes show of the flows in ``status``, asked all at once; a flow without other nodes is left
        out."""
        others = {flow.flow: _others(status, flow) for flow in status.flows}
        rounds = {flow: self._round(flow, members) for flow, members in others.items() if members}
        # a caller that goes away does not end a round which others wait for
        told = await asyncio.gather(*(asyncio.shield(one) for one in rounds.values()))
        return dict(zip(rounds, told, strict=True))

    async def groups(self, status: NodeStatus, flow: FlowStatus) -> tuple[list[GroupShare], list[str]]:
        """The consumer groups that the other nodes show of ``flow``, and sentences about those that cannot be asked."""
        members = _others(status, flow)
        told = await asyncio.gather(*(self._groups(flow.flow, member) for member in members))
        shares = [answer for answer in told if isinstance(answer, GroupShare)]
        return shares, [
            unseen(member.node, why) for member, why in zip(members, told, strict=True) if isinstance(why, str)
        ]

    async def close(self) -> None:
        """Ask nobody any more."""
        for task in self._asking:
            task.cancel()
        await asyncio.gather(*self._asking, return_exceptions=True)

    def _round(self, flow: Flow, members: Sequence[MemberStatus]) -> asyncio.Task[Answers]:
        asked = tuple((member.node, member.url) for member in members)
        last, now = self._rounds.get(flow), self._clock()
        if last is not None and last.asked == asked and (not last.answers.done() or now - last.began < FRESH_S):
            return last.answers
        task = asyncio.create_task(self._ask(flow, members), name=f"{flow} ask for shares")
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)
        self._rounds[flow] = _Round(now, asked, task)
        return task

    async def _ask(self, flow: Flow, members: Sequence[MemberStatus]) -> Answers:
        told = await asyncio.gather(*(self._share(flow, member) for member in members))
        return {member.node: answer for member, answer in zip(members, told, strict=True)}

    async def _share(self, flow: Flow, member: MemberStatus) -> Share | str:
        body = await self._body(flow, member, PeerRequest(method="GET", path=STATUS), SHARE_WITHIN_S)
        if isinstance(body, str):
            return body
        try:
            share = await asyncio.to_thread(SHARE.validate_json, body)
        except ValidationError:
            return f"{member.url} answers with what is no share of a flow: do all nodes run the same release?"
        if share.node != member.node:
            return f"{member.url}, where it says it is reached, is node {share.node}: look at rest.advertised.* there"
        return share

    async def _groups(self, flow: Flow, member: MemberStatus) -> GroupShare | str:
        request = PeerRequest(method="GET", path=GROUPS, largest=LARGEST_GROUPS_BYTES)
        body = await self._body(flow, member, request, GROUPS_WITHIN_S)
        if isinstance(body, str):
            return body
        try:
            return await asyncio.to_thread(read_groups, body, due=is_due(member.tasks))
        except GroupsUnreadableError as error:
            return f"the answer of {member.url} cannot be read, {error}: do all nodes run the same release?"

    async def _body(self, flow: Flow, member: MemberStatus, request: PeerRequest, within: float) -> bytes | str:
        """The answer of a member, or why there is none."""
        if not member.url:
            return NO_URL
        began = self._clock()
        last = f"{member.url} did not answer within {within:.0f} s"
        try:
            async with asyncio.timeout(within):
                while True:
                    standing = self._standings(flow.source, flow.target)
                    if standing is None:
                        return f"{flow} has ended here"
                    try:
                        return await self._peers.ask(member.url, standing, request)
                    except PeerError as error:
                        last = str(error)
                        if error.status != HTTPStatus.FORBIDDEN or self._clock() - began > SHARE_WITHIN_S:
                            return last
                    await asyncio.sleep(ROTATION_PAUSE_S)  # one of the two has read the new session key, the other not
        except TimeoutError:
            return last


def _others(status: NodeStatus, flow: FlowStatus) -> list[MemberStatus]:
    return [member for member in flow.members if member.node != status.node_id]
