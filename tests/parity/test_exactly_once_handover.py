"""Handover of a flow with exactly-once between mm2 and Java's MirrorMaker, both directions, under load.

A read_committed consumer of the target gets every record once and in order, also if the first program is killed in a
transaction, or resumes after the second has taken over.
"""

from __future__ import annotations

import itertools
import time

import psutil
import pytest

from tests.lab.cluster import KafkaCluster
from tests.lab.freezing import suspended
from tests.lab.waiting import wait_until
from tests.parity.exactly_once import JAVA, MM2, TASKS_MAX, ExactlyOnceFlow, under_load

# test_mutual_fencing.py has a handover in both directions, and what fences the source tasks of a killed program.
pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

SESSION_ENDS = 13.0  # seconds: session.timeout.ms (10 s), and what the coordinator may be late
RESUMED = 20.0  # seconds in which a resumed program could write


def check_transactions(flow: ExactlyOnceFlow) -> None:
    """Check that all records were written in transactions, by the producers of the source tasks' transactional ids."""
    batches = flow.batches()
    records = [one for one in batches if not one.control]
    print(f"{len(batches) - len(records)} markers, {sum(one.aborts for one in batches)} of them aborts")
    assert [one for one in records if not one.transactional] == []
    assert len({one.producer_id for one in records}) <= TASKS_MAX, "both programs continue the same producers"


def test_orderly_handover_to_java_and_back(cluster_a: KafkaCluster, cluster_b: KafkaCluster) -> None:
    """Java, then mm2, then Java: each is stopped with SIGTERM before the next one starts."""
    with under_load(cluster_a, cluster_b) as flow:
        ends = [flow.end_offsets()]
        for name in (JAVA, MM2, JAVA):
            program = flow.program(name)
            program.start()
            flow.wait_copies()
            if name == MM2:
                assert program.stop() == 0
            elif len(ends) == 1:
                program.stop()
            ends.append(flow.end_offsets())
        flow.verify()
        for before, after in itertools.pairwise(ends):
            assert all(before[number] < after[number] for number in after), "each program copied some of each partition"
        check_transactions(flow)


@pytest.mark.parametrize(("first", "second"), [(JAVA, JAVA), (JAVA, MM2), (MM2, JAVA), (MM2, MM2)])
def test_killed_program_is_replaced(cluster_a: KafkaCluster, cluster_b: KafkaCluster, first: str, second: str) -> None:
    """kill -9 under load: the transaction that was open is aborted, and its records are copied again."""
    with under_load(cluster_a, cluster_b) as flow:
        flow.program(first).start()
        flow.wait_copies()
        killed = time.monotonic()
        flow.program(first).kill()
        wait_group_free(first, second)
        flow.program(second).start()
        flow.wait_copies()
        print(f"{first} killed, {second} started: no records for {flow.arrivals.gap(killed):.1f} s")
        flow.verify()
        print(f"{len(flow.verify_uncommitted().duplicated)} records repeated for read_uncommitted consumers")
        check_transactions(flow)


@pytest.mark.parametrize("tasks_max", [TASKS_MAX, TASKS_MAX - 1], ids=["same-tasks", "fewer-tasks"])
@pytest.mark.parametrize(("first", "second"), [(JAVA, MM2), (MM2, JAVA)])
def test_suspended_program_is_fenced(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, first: str, second: str, tasks_max: int
) -> None:
    """Suspended in a transaction beyond its session, the first program can neither write nor commit when it resumes.

    That also holds for source tasks that the second program does not have.
    """
    with under_load(cluster_a, cluster_b) as flow:
        flow.set_tasks_max(second, tasks_max)
        flow.program(first).start()
        flow.wait_copies()
        with suspended(processes(flow, first)):
            wait_group_free(first, second)
            flow.program(second).start()
            flow.wait_copies()
        resumed = time.monotonic()
        wait_until(lambda: time.monotonic() > resumed + RESUMED, RESUMED + 10, "the resumed program had its time")
        flow.wait_copies()
        flow.verify()
        check_transactions(flow)
        assert epochs_never_decrease(flow)


def wait_group_free(first: str, second: str) -> None:
    """Wait until the session of mm2 is over: Java exits if it is in the group, and mm2 waits for Java's."""
    if (first, second) == (MM2, JAVA):
        began = time.monotonic()
        wait_until(lambda: time.monotonic() > began + SESSION_ENDS, SESSION_ENDS + 30, "the session of mm2 is over")


def processes(flow: ExactlyOnceFlow, name: str) -> list[psutil.Process]:
    """Return all processes of a running program."""
    return [psutil.Process(flow.java.process.pid)] if name == JAVA else flow.node.family()


def epochs_never_decrease(flow: ExactlyOnceFlow) -> bool:
    """Return whether no producer wrote to a partition after its successor."""
    newest: dict[tuple[int, int], int] = {}
    for one in flow.batches():
        key = one.partition, one.producer_id
        if one.producer_epoch < newest.get(key, -1):
            return False
        newest[key] = one.producer_epoch
    return True
