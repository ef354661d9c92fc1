from __future__ import annotations

from mm2.core.lanes.task_states import TaskState
from mm2.core.problems.grouped_problems import PlacedProblem, grouped, named, partitions_in_words, place_of, reasons

REFUSED = "cannot reach cluster A: connection refused"


def of_partition(topic: str, partition: int, reason: str | None = REFUSED) -> PlacedProblem:
    return PlacedProblem(
        state=TaskState.WAITING, topic=topic, remote_topic=f"A.{topic}", partition=partition, reason=reason
    )


def of_topic(topic: str, reason: str) -> PlacedProblem:
    return PlacedProblem(state=TaskState.FAILED, topic=topic, remote_topic=f"A.{topic}", reason=reason)


def of_task(number: int, node: str = "node-1", reason: str | None = "lane 0 has ended") -> PlacedProblem:
    return PlacedProblem(state=TaskState.FAILED, task=f"MirrorSourceConnector-{number}", node=node, reason=reason)


def lines(*problems: PlacedProblem) -> list[str]:
    return [str(one) for one in grouped(problems)]


def test_one_line_for_five_thousand_partitions() -> None:
    problems = [of_partition(f"topic-{n}", partition) for n in range(50) for partition in range(100)]
    names = "topic-0, topic-1, topic-2, topic-3, topic-4 and 45 more"
    (one,) = grouped(problems)
    assert str(one) == f"5,000 partitions of 50 topics ({names}): {REFUSED}"
    assert len(one.members) == 5_000
    assert one.members[0] == "topic topic-0 partition 0"


def test_one_partition_keeps_its_own_text() -> None:
    text = "cannot fetch orders-3: NOT_AUTHORIZED"
    assert lines(of_partition("orders", 3, text)) == [f"topic orders partition 3: {text}"]


def test_names_of_the_own_partition_are_no_other_cause() -> None:
    found = lines(
        *(of_partition("orders", n, f"cannot fetch orders-{n}: timeout") for n in range(12)),
        *(of_partition("users", n, f"write A.users-{n} of A.users: denied.") for n in (0, 2)),
    )
    assert found == [
        "topic orders partitions 0-11: cannot fetch the partition: timeout",
        "topic users partitions 0, 2: write the remote partition of the remote topic: denied.",
    ]


def test_longer_names_are_left_alone() -> None:
    text = "orders-12 and my.orders-1 and orders-1.x; orders-1. orders"
    (one,) = {of_partition("orders", 1, text).cause}
    assert one == "orders-12 and my.orders-1 and orders-1.x; the partition. the topic"


def test_topics_with_one_cause() -> None:
    denied = "remote topic A.{0}: not authorized to create it; grant CREATE on A.{0}"
    assert lines(of_topic("orders", denied.format("orders")), of_topic("users", denied.format("users"))) == [
        "2 topics (orders, users): the remote topic: not authorized to create it; grant CREATE on the remote topic"
    ]


def test_tasks_with_one_cause() -> None:
    assert lines(of_task(0)) == ["task MirrorSourceConnector-0 on node-1: lane 0 has ended"]
    assert lines(of_task(0, node="")) == ["task MirrorSourceConnector-0: lane 0 has ended"]
    both = "2 tasks (MirrorSourceConnector-0, MirrorSourceConnector-1)"
    assert lines(of_task(0), of_task(1)) == [f"{both} on node-1: lane 0 has ended"]
    assert lines(of_task(0), of_task(1, "node-2")) == [f"{both} on node-1, node-2: lane 0 has ended"]
    assert place_of([of_task(0, ""), of_task(1, "")]) == both


def test_one_line_for_a_query_that_cannot_run() -> None:
    """F7: it was a line for each task and partition."""
    reason = "query wrong cannot run: [UNRESOLVED_ROUTINE]"
    tasks = [of_task(number, reason=reason) for number in (4, 5)]
    parts = [
        PlacedProblem(state=TaskState.FAILED, topic=topic, remote_topic=f"A.{topic}", partition=n, reason=reason)
        for topic in ("orders", "users")
        for n in range(3)
    ]
    both = "2 tasks (MirrorSourceConnector-4, MirrorSourceConnector-5) on node-1"
    assert lines(*tasks, *parts) == [f"6 partitions of 2 topics (orders, users) and {both}: {reason}"]
    assert lines(tasks[0], parts[1]) == [
        f"topic orders partition 1 and task MirrorSourceConnector-4 on node-1: {reason}"
    ]
    (one,) = grouped([*tasks, *parts])
    assert len(one.members) == 8


def test_states_and_causes_are_kept_apart() -> None:
    found = lines(of_partition("orders", 0), of_partition("orders", 1, "another"), of_topic("orders", REFUSED))
    assert found == [
        f"topic orders partition 0: {REFUSED}",
        "topic orders partition 1: another",
        f"topic orders: {REFUSED}",
    ]


def test_a_reason_is_never_empty() -> None:
    assert lines(of_partition("orders", 0, None)) == [
        "topic orders partition 0: it failed without a message; see the log of its node"
    ]
    assert lines(of_task(0, reason="")) == [
        "task MirrorSourceConnector-0 on node-1: it failed without a message; see the log of node node-1"
    ]


def test_a_place_is_named_once() -> None:
    text = "topic orders partition 3: source offset 7 is lost"
    assert lines(of_partition("orders", 3, text)) == [text]


def test_reasons_of_a_flow_are_about_what_does_not_run() -> None:
    passing = PlacedProblem(state=TaskState.RUNNING, topic="orders", partition=1, reason="not the leader")
    warned = PlacedProblem(state=TaskState.RUNNING, topic="orders", reason="its configuration is not synced")
    assert reasons([passing, warned, of_partition("orders", 0)]) == [
        "topic orders: its configuration is not synced",
        f"topic orders partition 0: {REFUSED}",
    ]


def test_partitions_in_words() -> None:
    assert partitions_in_words([("orders", 3)]) == "topic orders partition 3"
    assert partitions_in_words(("orders", n) for n in (7, 0, 1, 2)) == "topic orders partitions 0-2, 7"
    assert partitions_in_words(("orders", 2 * n) for n in range(9)) == "9 partitions of topic orders"
    assert partitions_in_words([("a", 0), ("b", 0)]) == "2 partitions of 2 topics (a, b)"


def test_names() -> None:
    assert named(["a", "b"]) == "a, b"
    assert named(list("abcdefg")) == "a, b, c, d, e and 2 more"
