from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest

from mm2.core.naming.guarded_policy import GuardedPolicy
from mm2.core.naming.names import Flow
from mm2.core.plugins import Plugin, PluginError
from mm2.core.policies import MOST_HOPS, DefaultReplicationPolicy
from mm2.core.topics.replication_filter import ReplicationFilter
from mm2.core.topics.topic_plan import plan_topics


def policy(**results: object) -> GuardedPolicy:
    """Return Java's policy with some methods replaced: they return or raise their entry of ``results``."""

    def method(answer: object) -> Callable[..., object]:
        def say(*_: object) -> object:
            if isinstance(answer, Exception):
                raise answer
            return answer

        return say

    odd = type("Odd", (DefaultReplicationPolicy,), {name: method(answer) for name, answer in results.items()})
    return GuardedPolicy(Plugin("replication.policy.class my:Odd", odd()))


def refusal(method: str, answer: object, *arguments: str) -> str:
    with pytest.raises(PluginError) as caught:
        getattr(policy(**{method: answer}), method)(*arguments)
    return str(caught.value)


def test_valid_results_are_returned() -> None:
    own, java = policy(), DefaultReplicationPolicy()
    for topic in ("orders", "A.orders", "A.B.heartbeats", "mm2-offsets.A.internal", "A.checkpoints.internal", "__x"):
        for method in (
            *("topic_source", "upstream_topic", "original_topic", "is_heartbeats_topic", "is_checkpoints_topic"),
            *("is_mm2_internal_topic", "is_internal_topic"),
        ):
            assert getattr(own, method)(topic) == getattr(java, method)(topic), (method, topic)
    assert own.format_remote_topic("A", "orders") == "A.orders"
    assert own.heartbeats_topic() == "heartbeats"
    assert own.offset_syncs_topic("B") == "mm2-offset-syncs.B.internal"
    assert own.checkpoints_topic("A") == "A.checkpoints.internal"
    assert list(own.upstream_topics("A.B.x")) == ["B.x", "x"]


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "orders/eu", "ö", "x" * 250, "a\n"])
def test_invalid_topic_names(name: str) -> None:
    assert refusal("format_remote_topic", name, "A", "orders").endswith(
        "not a valid topic name: 1 to 249 letters, digits and . _ -"
    )


def test_longest_topic_name() -> None:
    assert policy(format_remote_topic="x" * 249).format_remote_topic("A", "orders") == "x" * 249


@pytest.mark.parametrize("name", ["__consumer_offsets", "mm2-offsets.A.internal"])
def test_reserved_topic_names(name: str) -> None:
    assert refusal("format_remote_topic", name, "A", "orders") == (
        f"replication.policy.class my:Odd: format_remote_topic('A', 'orders') returned '{name}', a name reserved"
        " for internal topics of Kafka or MirrorMaker"
    )


@pytest.mark.parametrize(
    ("method", "answer", "arguments", "rule"),
    [
        ("format_remote_topic", None, ("A", "x"), "returned None, not a string"),
        ("original_topic", 3, ("x",), "returned 3, not a string"),
        ("topic_source", 3, ("x",), "returned 3, neither a string nor None"),
        ("upstream_topic", b"x", ("x",), "returned b'x', neither a string nor None"),
        ("is_internal_topic", None, ("x",), "returned None, not True or False"),
        ("heartbeats_topic", "heart beats", (), "heartbeats_topic() returned 'heart beats', not a valid topic name"),
        ("topic_source", RuntimeError("off"), ("x",), "topic_source('x') raised RuntimeError: off"),
    ],
)
def test_other_invalid_results(method: str, answer: object, arguments: tuple[str, ...], rule: str) -> None:
    assert rule in refusal(method, answer, *arguments)


def test_own_topics_are_internal_under_every_policy() -> None:
    assert policy(is_internal_topic=False).is_internal_topic("mm2-offsets.A.internal")


def test_remote_topic_names_are_cached() -> None:
    numbers = count()

    class Counting(DefaultReplicationPolicy):
        def format_remote_topic(self, alias: str, topic: str) -> str:
            return f"{topic}-{next(numbers)}"

    own = GuardedPolicy(Plugin("replication.policy.class my:Counting", Counting()))
    assert [own.format_remote_topic(alias, "x") for alias in "AABA"] == ["x-0", "x-0", "x-1", "x-0"]


def test_conflicting_topics_are_both_named() -> None:
    plan = plan_topics({"a": 1, "b": 1}, {}, policy=policy(format_remote_topic="same"), source_alias="A")
    assert [str(clash) for clash in plan.clashes] == [
        "a, b all map to remote topic same: rename or exclude all but one"
    ]
    assert (plan.create, plan.remote_topics) == ((), {})


def test_policy_with_ever_longer_names_terminates() -> None:
    class Longer(DefaultReplicationPolicy):
        def upstream_topic(self, topic: str) -> str:
            return f"{topic}x"

    assert Longer().original_topic("a") == "a" + "x" * MOST_HOPS


def test_errors_of_filters_are_raised() -> None:
    chosen = ReplicationFilter(
        aliases=Flow("A", "B"), policy=policy(upstream_topic=ValueError("no")), selects=lambda _: True
    )
    with pytest.raises(PluginError, match=r"upstream_topic\('orders'\) raised ValueError: no"):
        chosen.replicates("orders")
