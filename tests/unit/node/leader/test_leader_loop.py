"""Errors of the leader are retried."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NoReturn, cast

import pytest

from mm2.core.naming.names import Flow
from mm2.election.protocol import Election, Joined, Membership
from mm2.kafka.clock import session_clock
from mm2.kafka.logs.transaction_coordinator import Fenced
from mm2.node.common.cancelling import cancel_and_wait
from mm2.node.leader.leader_loop import LeaderLoop
from mm2.node.leader.leader_term import LeaderTerm
from tests.lab.waiting import until

FLOW = Flow("A", "B")


class Chosen:
    """An election without a cluster, in which this node is the leader."""

    membership: Membership = Joined(member_id="one", leader_id="one", generation=3, members={}, assignment=None)

    def __init__(self) -> None:
        self.confirmed_at = session_clock()
        self.asked = 0

    @property
    def contact(self) -> float:
        self.asked += 1
        return self.confirmed_at


class FencedTerm:
    """A term that another leader's writer fences as soon as it writes."""

    async def run(self, on_ready: Callable[[], None]) -> NoReturn:
        on_ready()
        raise Fenced("transactional id connect-cluster-A-mm2: not held by this producer")


async def test_a_failed_start_of_a_term_is_retried(caplog: pytest.LogCaptureFixture) -> None:
    made: list[int] = []

    def make(generation: int, _: LeaderTerm | None) -> NoReturn:
        made.append(generation)
        raise RuntimeError("a policy that fails")

    leader = LeaderLoop(FLOW, make)
    leading = asyncio.create_task(leader.lead(cast(Election, Chosen())))
    await until(lambda: len(made) > 1, 30.0, "it is retried")
    assert leader.error.text == "leader failed unexpectedly; retrying (see the log)"
    assert leader.leader_term is None
    assert "a policy that fails" in caplog.text
    await cancel_and_wait([leading])


async def test_fenced_leader_leads_again_only_after_the_election_has_confirmed_it() -> None:
    made: list[int] = []

    def make(generation: int, _: LeaderTerm | None) -> LeaderTerm:
        made.append(generation)
        return cast(LeaderTerm, FencedTerm())

    chosen, leader = Chosen(), LeaderLoop(FLOW, make)
    leading = asyncio.create_task(leader.lead(cast(Election, chosen)))
    await until(lambda: leader.error.text, 30.0, "it was fenced")
    assert "not held by this producer" in str(leader.error.text)
    asked = chosen.asked
    await until(lambda: chosen.asked > asked + 3, 30.0, "the backoff is over, and it waits for the election")
    assert made == [3]
    chosen.confirmed_at = session_clock()
    await until(lambda: len(made) > 1, 30.0, "it leads again")
    await cancel_and_wait([leading])
