from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest

from mm2.core.names import Flow
from mm2.core.own_policy import OwnPolicy
from mm2.core.plugins import Plugin, PluginError
from mm2.core.policies import MOST_HOPS, DefaultReplicationPolicy
from mm2.core.replication_filter import ReplicationFilter
from mm2.core.topic_plan import plan_topics


def policy(**answers: object) -> OwnPolicy:
    """Java's policy, but for the methods that have ``answers`` here; exceptions are raised."""

    def method(answer: object) -> Callable[..., object]:
        def say(*_: object) -> object:
            if isinstance(answer, Exception):
                raise answer
            return answer

        return say

    odd = type("Odd", (DefaultReplicationPolicy,), {name: method(answer) for name, answer in answers.items()})
    return OwnPolicy(Plugin("replication.policy.class my:Odd", odd()))


def refusal(method: str, answer: object, *arguments: str) -> str:
    with pytest.raises(PluginError) as caught:
        getattr(policy(**{method: answer}), method)(*arguments)
    return str(caught.value)


def test_good_answers_are_handed_on() -> None:
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
def test_names_that_no_broker_takes(name: str) -> None:
    assert refusal("format_remote_topic", name, "A", "orders").endswith(
        "not the name of a topic: 1 to 249 letters, digits and . _ -"
    )


def test_the_longest_name() -> None:
    assert policy(format_remote_topic="x" * 249).format_remote_topic("A", "orders") == "x" * 249


@pytest.mark.parametrize("name", ["__consumer_offsets", "mm2-offsets.A.internal"])
def test_names_that_belong_to_others(name: str) -> None:
    assert refusal("format_remote_topic", name, "A", "orders") == (
        f"replication.policy.class my:Odd: format_remote_topic('A', 'orders') answered '{name}', the name of a topic"
        " that Kafka or MirrorMaker keeps for itself"
    )


@pytest.mark.parametrize(
    ("method", "answer", "arguments", "rule"),
    [
        ("format_remote_topic", None, ("A", "x"), "answered None, not a text"),
        ("original_topic", 3, ("x",), "answered 3, not a text"),
        ("topic_source", 3, ("x",), "answered 3, neither a text nor None"),
        ("upstream_topic", b"x", ("x",), "answered b'x', neither a text nor None"),
        ("is_internal_topic", None, ("x",), "answered None, not True or False"),
        ("heartbeats_topic", "heart beats", (), "heartbeats_topic() answered 'heart beats', not the name of a topic"),
        ("topic_source", RuntimeError("off"), ("x",), "topic_source('x') raised RuntimeError: off"),
    ],
)
def test_other_nonsense(method: str, answer: object, arguments: tuple[str, ...], rule: str) -> None:
    assert rule in refusal(method, answer, *arguments)


def test_topics_of_ours_are_internal_whatever_it_says() -> None:
    assert policy(is_internal_topic=False).is_internal_topic("mm2-offsets.A.internal")


def test_a_name_stays_as_it_was_given_first() -> None:
    numbers = count()

    class Counting(DefaultReplicationPolicy):
        def format_remote_topic(self, alias: str, topic: str) -> str:
            return f"{topic}-{next(numbers)}"

    own = OwnPolicy(Plugin("replication.policy.class my:Counting", Counting()))
    assert [own.format_remote_topic(alias, "x") for alias in "AABA"] == ["x-0", "x-0", "x-1", "x-0"]


def test_two_topics_of_one_name_are_both_named() -> None:
    plan = plan_topics({"a": 1, "b": 1}, {}, policy=policy(format_remote_topic="same"), source_alias="A")
    assert [str(clash) for clash in plan.clashes] == [
        "a, b would all be replicated to same: rename or exclude all but one"
    ]
    assert (plan.create, plan.remote_topics) == ((), {})


def test_a_policy_that_only_adds_ends() -> None:
    class Longer(DefaultReplicationPolicy):
        def upstream_topic(self, topic: str) -> str:
            return f"{topic}x"

    assert Longer().original_topic("a") == "a" + "x" * MOST_HOPS


def test_a_filter_hands_its_error_on() -> None:
    chosen = ReplicationFilter(
        flow=Flow("A", "B"), policy=policy(upstream_topic=ValueError("no")), selects=lambda _: True
    )
    with pytest.raises(PluginError, match=r"upstream_topic\('orders'\) raised ValueError: no"):
        chosen.replicates("orders")
