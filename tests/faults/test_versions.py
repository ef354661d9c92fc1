"""The previous version of mm2 shares a flow with this one: upgrade, downgrade and takeover under load.

The previous version comes from git; ``MM2_PREVIOUS=<commit>`` selects another one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.faults.node_group import CONFIGS, NOISE, PARTITIONS, PER_SECOND, SHARED, NodeGroup
from tests.lab.cluster import KafkaCluster
from tests.lab.commands import ROOT
from tests.lab.decisions import decisions, verdict
from tests.lab.fixtures import unique_name
from tests.lab.lanes import lanes
from tests.lab.load import Load
from tests.lab.node import REST_TIMEOUT, Node
from tests.lab.previous_version import NO_HISTORY, NoPreviousVersionError, importers, previous_commit, unpack
from tests.lab.waiting import wait_until

FLOW = "A->B"
REFRESH = "refresh requested through REST"
TOKEN = "0123456789abcdef0123456789abcdef"
ADMIN = {"mm2.rest.admin": "true", "mm2.rest.admin.token": TOKEN}

pytestmark = [
    pytest.mark.long,  # no version is released yet
    pytest.mark.needs("git"),
    pytest.mark.timeout(600),  # seconds: Spark starts up to four times, on shared cores
]


@pytest.fixture(scope="module")
def previous() -> Path:
    """The directory of the previous version's code."""
    try:
        commit = previous_commit()
    except NoPreviousVersionError as problem:
        pytest.skip(f"{NO_HISTORY}: {problem}")
    print(f"previous version: commit {commit}")
    return unpack(commit)


@pytest.fixture(scope="module")
def group(previous: Path) -> Iterator[NodeGroup]:
    """Node one runs the previous version and leads; node two runs this version."""
    with KafkaCluster("source") as source, KafkaCluster("target") as target:
        group = NodeGroup(source, target, properties_of=dict.fromkeys(("one", "two"), ADMIN))
        one, two = group["one"], group["two"]
        one.tree = previous
        with one:
            one.wait_answering()
            wait_until(lambda: one.flow(FLOW).get("leader") == one.name, SHARED, "the previous version leads")
            with two:
                yield group


def require_version(node: Node, previous: Path) -> None:
    """Check that the node, its engine and its lanes run the code of ``node.tree``, and no other."""
    processes = {node.process.pid, *(one.pid for one in (*node.members("engine"), *lanes(node)))}
    assert len(processes) > 2, "the node, its engine and a lane"
    found = processes & importers(previous)
    assert found == (processes if node.tree == previous else set())


def require_contact(group: NodeGroup, node: Node) -> None:
    """Check that the node can read the other's share of the flow, and that both execute a command given to it."""
    reasons = node.flow(FLOW)["reasons"]
    assert not [reason for reason in reasons if "state of node" in reason], reasons
    executed = len(logged(group, REFRESH)) + len(group.by_name)
    answer = httpx.post(
        f"{node.url}/flows/A/B/refresh", headers={"Authorization": f"Bearer {TOKEN}"}, timeout=REST_TIMEOUT
    )
    assert answer.status_code == httpx.codes.ACCEPTED, answer.text
    wait_until(lambda: len(logged(group, REFRESH)) == executed, NOISE, f"both nodes execute a command to {node.name}")


def switch(group: NodeGroup, name: str, tree: Path, previous: Path) -> None:
    """Stop a node in order, and start the version in ``tree`` in its place."""
    node = group[name]
    assert node.stop() == 0
    group.wait_shared(*(group.by_name.keys() - {name}))
    node.tree = tree
    node.start()
    wait_shared(group, previous)


def wait_shared(group: NodeGroup, previous: Path) -> None:
    """Wait until both nodes copy, and check which version each of them runs."""
    leader = group.wait_shared().leader
    for name, node in group.by_name.items():
        require_version(node, previous)
        version = "the previous" if node.tree == previous else "this"
        print(f"{name} runs {version} version{' and leads' if name == leader else ''}")
    for node in group.by_name.values():
        require_contact(group, node)


def logged(group: NodeGroup, *words: str) -> list[str]:
    """Return the lines of the nodes' logs with one of these words."""
    return [
        f"{name}: {line}"
        for name, node in group.by_name.items()
        for line in node.process.output().splitlines()
        if any(word in line for word in words)
    ]


@pytest.mark.parametrize(
    "versions",
    [
        pytest.param((("one", "previous"),), id="restart"),
        pytest.param((("one", "this"), ("two", "previous")), id="upgrade-and-downgrade"),
    ],
)
def test_nodes_of_two_versions_share_a_flow(
    group: NodeGroup, previous: Path, versions: tuple[tuple[str, str], ...]
) -> None:
    """Nodes stop in order and start with these versions. Nothing is lost or repeated, and no node fails at or skips
    what the other version writes."""
    topic = group.source.create_topic(unique_name("t"), PARTITIONS)
    wait_shared(group, previous)
    with Load(group.source, topic, partitions=PARTITIONS, per_second=PER_SECOND) as load:
        for name, version in versions:
            load.wait_for_more(PER_SECOND)
            switch(group, name, ROOT if version == "this" else previous, previous)
        load.wait_for_more(PER_SECOND)
        load.stop()
    group.verify(topic)
    assert logged(group, " ERROR ", "skipped a record", "Traceback") == []
    assert verdict(decisions(group.target, CONFIGS)) == []


def test_previous_version_replaces_a_killed_node_of_this_one(group: NodeGroup, previous: Path) -> None:
    wait_shared(group, previous)
    victim = next(node for node in group.by_name.values() if node.tree == ROOT)
    (survivor,) = group.by_name.keys() - {victim.name}
    topic = group.source.create_topic(unique_name("t"), PARTITIONS)
    with Load(group.source, topic, partitions=PARTITIONS, per_second=PER_SECOND) as load:
        load.wait_for_more(PER_SECOND)
        victim.kill()
        group.wait_shared(survivor)
        load.wait_for_more(PER_SECOND)
        victim.start()
        wait_shared(group, previous)
        load.wait_for_more(PER_SECOND)
        load.stop()
    group.verify(topic, repeats_allowed=True)
    assert logged(group, "skipped a record", "Traceback") == []
    assert verdict(decisions(group.target, CONFIGS)) == []
