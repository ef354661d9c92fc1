from __future__ import annotations

from mm2.core.names import Flow
from mm2.node.shared_remote_topics import shared_remote_topics
from tests.contract.samples import flow, topic

A_C, B_C, A_D = Flow("A", "C"), Flow("B", "C"), Flow("A", "D")


def test_a_remote_topic_of_two_flows_is_told_with_both() -> None:
    found = shared_remote_topics(
        [
            flow(topic("orders", remote_topic="orders"), topic("clicks", remote_topic="clicks"), flow=A_C),
            flow(topic("orders", remote_topic="orders"), flow=B_C),
        ]
    )
    assert found == {
        A_C: "topic orders on cluster C is written by B->C too: records of both are mixed there. If that is not wanted,"
        " exclude them from one of the flows (topics.exclude)",
        B_C: "topic orders on cluster C is written by A->C too: records of both are mixed there. If that is not wanted,"
        " exclude them from one of the flows (topics.exclude)",
    }


def test_many_of_them_are_one_sentence() -> None:
    topics = [topic(f"t{number}", remote_topic=f"t{number}") for number in range(5)]
    found = shared_remote_topics([flow(*topics, flow=A_C), flow(*topics, flow=B_C)])
    assert found[A_C].startswith("topics t0, t1, t2 and 2 more on cluster C are written by B->C too")


def test_the_same_name_on_another_target_is_another_topic() -> None:
    orders = topic("orders", remote_topic="orders")
    assert shared_remote_topics([flow(orders, flow=A_C), flow(orders, flow=A_D)]) == {}


def test_names_with_aliases_are_not_shared() -> None:
    a, b = topic("orders", remote_topic="A.orders"), topic("orders", remote_topic="B.orders")
    assert shared_remote_topics([flow(a, flow=A_C), flow(b, flow=B_C)]) == {}
