from __future__ import annotations

from mm2.node.supervisor import shared_remote_topics
from tests.contract.samples import flow, topic

A_C = {"flow": "A->C", "source": "A", "target": "C"}
B_C = {"flow": "B->C", "source": "B", "target": "C"}
A_D = {"flow": "A->D", "source": "A", "target": "D"}


def test_a_remote_topic_of_two_flows_is_a_warning_of_both() -> None:
    found = shared_remote_topics(
        [
            flow(topic("orders", remote_topic="orders"), topic("clicks", remote_topic="clicks"), **A_C),
            flow(topic("orders", remote_topic="orders"), **B_C),
        ]
    )
    message = (
        "topic orders on cluster C is also written by {}, so records of different flows are mixed; if this is not"
        " intended, exclude it from one of the flows (topics.exclude)"
    )
    assert found == {"A->C": message.format("B->C"), "B->C": message.format("A->C")}


def test_many_shared_topics_are_one_message() -> None:
    topics = [topic(f"t{number}", remote_topic=f"t{number}") for number in range(5)]
    found = shared_remote_topics([flow(*topics, **A_C), flow(*topics, **B_C)])
    assert found["A->C"].startswith("topics t0, t1, t2 and 2 more on cluster C are also written by B->C, so")


def test_the_same_name_on_another_target_is_another_topic() -> None:
    orders = topic("orders", remote_topic="orders")
    assert shared_remote_topics([flow(orders, **A_C), flow(orders, **A_D)]) == {}


def test_names_with_aliases_are_not_shared() -> None:
    a, b = topic("orders", remote_topic="A.orders"), topic("orders", remote_topic="B.orders")
    assert shared_remote_topics([flow(a, **A_C), flow(b, **B_C)]) == {}
