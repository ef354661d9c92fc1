"""Adding an election backend takes one module and one table line, and the file can select it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Self

import pytest

from mm2.config.keys.election_keys import election_models
from mm2.core.settings.client import ClientSettings
from mm2.core.settings.election import BACKENDS
from mm2.election.group_guarded_election import choose_election
from mm2.election.kafka.kafka_group import GroupSettings
from mm2.election.protocol import Assign, Joined, Lost, MemberInfo, Membership
from mm2.kafka.client.cluster import Cluster
from tests.unit.config.files import flow, loaded
from tests.unit.election.memory_backend import BACKEND, MemoryKeys

INFO = MemberInfo(node_id="n1", url="", capacity=1, kinds=())


@pytest.fixture(autouse=True)
def backend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BACKENDS, "memory", BACKEND)


class HeldGroup:
    """The flow's Kafka group without a broker: it joins immediately."""

    def __init__(self, cluster: Cluster, settings: GroupSettings, info: MemberInfo, assign: Assign) -> None:
        self.protocols = settings.protocols
        self.membership: Membership = Joined(
            generation=7, member_id="k", leader_id="k", members={"k": info}, assignment=None
        )
        self.contact = float("-inf")
        held_groups.append(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None: ...

    def certain_for(self) -> float:
        return 10.0

    def update(self, info: MemberInfo, *, quiet: bool = False) -> None: ...

    def expect_rebalance(self, wanted: bool) -> None: ...

    def request_round(self) -> None: ...

    async def events(self) -> AsyncIterator[Membership]:
        yield Lost(reason="joining")
        yield self.membership
        await asyncio.Event().wait()


held_groups: list[HeldGroup] = []


async def test_flow_with_the_added_backend(tmp_path: Path) -> None:
    settings = flow(tmp_path, "mm2.election = memory\nmm2.memory.room = two\n").election
    assert settings is not None
    assert (settings.session_timeout_ms, settings.secrets) == (1_000, ())

    def assign(generation: int, members: Mapping[str, MemberInfo]) -> dict[str, str]:
        return {one: f"tasks of {info.node_id}" for one, info in members.items()}

    cluster = Cluster(ClientSettings(bootstrap_servers=("nowhere:1",)))
    election = choose_election(settings, cluster, GroupSettings(group_id="A-mm2"), INFO, assign, by_group=HeldGroup)
    async with election:
        joined = [event async for event in _until_joined(election.events())][-1]
    assert isinstance(joined, Joined)
    assert (joined.generation, joined.is_leader, joined.assignment) == (1, True, "tasks of n1")
    assert held_groups[-1].protocols == ("held for memory two/A->B",)


async def _until_joined(events: AsyncIterator[Membership]) -> AsyncIterator[Membership]:
    async for event in events:
        yield event
        if isinstance(event, Joined):
            return


def test_keys_of_the_added_backend_are_checked(tmp_path: Path) -> None:
    assert MemoryKeys in election_models()
    (wrong,) = [
        p for p in loaded(tmp_path, "mm2.election = memory\nmm2.memory.room = x\n").problems if not p.is_warning
    ]
    assert (wrong.key, "must be one or two" in str(wrong)) == ("mm2.memory.room", True)


def test_keys_of_an_unselected_backend_have_no_effect(tmp_path: Path) -> None:
    messages = [
        str(problem) for problem in loaded(tmp_path, "mm2.election = memory\nmm2.zookeeper.connect = z\n").problems
    ]
    assert any("mm2.election is memory (fix: add mm2.election = zookeeper" in one for one in messages)


def test_unknown_backend_is_rejected_with_the_available_ones(tmp_path: Path) -> None:
    messages = [str(problem) for problem in loaded(tmp_path, "mm2.election = etcd\n").problems]
    assert any("must be kafka, zookeeper or memory" in one for one in messages)
