"""Leading goes on through what goes wrong in it."""

from __future__ import annotations

import asyncio
from typing import NoReturn, cast

import pytest

from mm2.core.names import Flow
from mm2.election.protocol import Election, Joined
from mm2.node.flow_leader import FlowLeader
from mm2.node.leadership import Leadership
from tests.lab.waiting import until

FLOW = Flow("A", "B")


class Chosen:
    """All that is asked of an election: who leads."""

    membership = Joined(member_id="one", leader_id="one", generation=3, members={}, assignment=None)


async def test_a_leadership_that_cannot_be_made_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    made: list[int] = []

    def make(generation: int, _: Leadership | None) -> NoReturn:
        made.append(generation)
        raise RuntimeError("a policy that fails")

    leader = FlowLeader(FLOW, make)
    leading = asyncio.create_task(leader.lead(cast(Election, Chosen())))
    await until(lambda: len(made) > 1, 30.0, "it is tried again")
    assert leader.trouble == "lead the flow: an unexpected error, see the log"
    assert leader.leadership is None
    assert "a policy that fails" in caplog.text
    leading.cancel()
    await asyncio.wait([leading])
