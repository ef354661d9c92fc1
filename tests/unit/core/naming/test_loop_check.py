from __future__ import annotations

import re

import pytest

from mm2.core.naming.loop_check import CheckedFlow, Loop, PossibleLoop, find_loops
from mm2.core.naming.names import Flow
from mm2.core.plugins import PluginError
from mm2.core.policies import DefaultReplicationPolicy, IdentityReplicationPolicy, ReplicationPolicy
from mm2.core.topics.replication_filter import ReplicationFilter


def flow(
    text: str,
    *topics: str,
    policy: ReplicationPolicy | None = None,
    exclude: str = r".*[\-\.]internal|__.*",
    aliases: str | None = None,
) -> CheckedFlow:
    """Return one flow, with the identity policy by default. ``aliases``: other ones than its own, as ``X->Y``."""
    parsed = Flow.parse(text)
    selected = re.compile("|".join(topics))
    return CheckedFlow(
        flow=parsed,
        rules=ReplicationFilter(
            aliases=parsed if aliases is None else Flow.parse(aliases),
            policy=policy or IdentityReplicationPolicy(source_alias=parsed.source),
            selects=lambda topic: bool(selected.fullmatch(topic)) and not re.fullmatch(exclude, topic),
        ),
        topics=topics,
    )


def loops(*flows: CheckedFlow) -> list[str]:
    """Return each loop as its flows and the topic, or a question mark."""
    return [
        " ".join(map(str, loop.flows)) + ": " + (loop.topic if isinstance(loop, Loop) else "?")
        for loop in find_loops(flows)
    ]


def test_identity_policy_in_both_directions_is_a_loop() -> None:
    assert loops(flow("A->B", ".*"), flow("B->A", ".*")) == ["A->B B->A: x"]
    assert loops(flow("A->B", "orders", "users"), flow("B->A", "users")) == ["A->B B->A: users"]
    assert loops(flow("B->A", "users"), flow("A->B", r"us\w+")) == ["A->B B->A: users"]


def test_one_direction_is_no_loop() -> None:
    assert loops(flow("A->B", ".*"), flow("A->C", ".*"), flow("B->C", ".*")) == []
    assert loops() == []


def test_disjoint_topics_are_no_loop() -> None:
    assert loops(flow("A->B", "orders"), flow("B->A", "users")) == []
    assert loops(flow("A->B", "a-.*"), flow("B->A", "b-.*")) == []
    assert loops(flow("A->B", ".*", exclude="b-.*"), flow("B->A", "b-.*")) == []


def test_overlapping_prefixes_are_a_loop() -> None:
    assert loops(flow("A->B", r"team\.a.*"), flow("B->A", r"team\..*")) == ["A->B B->A: team.a"]
    assert loops(flow("A->B", "a.*", exclude="a"), flow("B->A", "ax.*")) == ["A->B B->A: ax"]


def test_undecidable_loop_is_reported() -> None:
    (loop,) = find_loops([flow("A->B", "[a-m]{2}"), flow("B->A", "[n-z]+", "orders")])
    assert loop == PossibleLoop(flows=(Flow("A", "B"), Flow("B", "A")), patterns=("[a-m]{2}", "[n-z]+"))


def test_longer_loops() -> None:
    circle = [flow("A->B", ".*"), flow("B->C", "o.*"), flow("C->A", "orders")]
    assert loops(*circle, flow("A->C", "x")) == ["A->B B->C C->A: orders"]
    assert loops(*circle[:2], flow("C->A", "users")) == []


def test_each_flow_is_reported_in_one_loop() -> None:
    mesh = [flow(f"{one}->{two}", ".*") for one in "ABCDEFGHIJ" for two in "ABCDEFGHIJ" if one != two]
    found = loops(*mesh)
    assert len(found) == 45
    assert found[0] == "A->B B->A: x"


def test_default_policy_detects_its_copies() -> None:
    default = DefaultReplicationPolicy()
    mesh = [flow(f"{one}->{two}", ".*", policy=default) for one in "ABCDEFGH" for two in "ABCDEFGH" if one != two]
    assert loops(*mesh) == []


def test_loop_of_mixed_policies() -> None:
    default = DefaultReplicationPolicy()
    assert loops(flow("A->B", ".*"), flow("B->A", ".*", policy=default)) == ["A->B B->A: x"]
    assert loops(flow("A->B", "orders"), flow("B->A", "orders", policy=default)) == []
    two_that_rename = [flow("B->C", ".*", policy=default), flow("C->A", ".*", policy=default)]
    assert loops(flow("A->B", ".*"), *two_that_rename) == []


def test_unreadable_separators() -> None:
    mixed = [
        flow("A->B", ".*", policy=DefaultReplicationPolicy()),
        flow("B->A", ".*", policy=DefaultReplicationPolicy(separator="_")),
    ]
    assert loops(*mixed) == ["A->B B->A: x"]


@pytest.mark.parametrize("internal", ["__consumer_offsets", "mm2-offsets.A.internal"])
def test_internal_topics_do_not_loop(internal: str) -> None:
    assert loops(flow("A->B", internal, exclude=""), flow("B->A", internal, exclude="")) == []


class Unreadable(DefaultReplicationPolicy):
    """A policy that supports one topic only."""

    def format_remote_topic(self, alias: str, topic: str) -> str:
        if topic != "known":
            raise PluginError("replication.policy.class my:Policy: unknown")
        return topic


def test_failing_user_policy_replicates_nothing() -> None:
    own = Unreadable()
    assert loops(flow("A->B", ".*", policy=own), flow("B->A", ".*", policy=own)) == []
    assert loops(flow("A->B", "known", policy=own), flow("B->A", "known", policy=own)) == ["A->B B->A: known"]


def test_user_filter_is_applied_to_the_names_of_other_flows() -> None:
    own = CheckedFlow(flow=Flow("A", "B"), rules=flow("A->B", "ord.*").rules, topics=("my.module:Filter",))
    assert loops(own, flow("B->A", "orders")) == ["A->B B->A: orders"]
    (loop,) = find_loops([own, flow("B->A", "users")])
    assert isinstance(loop, PossibleLoop)
    assert loop.patterns == ("my.module:Filter",)


def test_copies_are_recognised_by_the_aliases_in_their_names() -> None:
    """source.cluster.alias of one flow and target.cluster.alias of the other have to be equal."""
    default = DefaultReplicationPolicy()
    there = flow("A->B", ".*", policy=default, aliases="eu->us")
    assert loops(there, flow("B->A", ".*", policy=default, aliases="us->eu")) == []
    assert loops(there, flow("B->A", ".*", policy=default, aliases="us->europe")) == []  # us.eu.x ends there
    assert loops(there, flow("B->A", ".*", policy=default)) == ["A->B B->A: x"]
