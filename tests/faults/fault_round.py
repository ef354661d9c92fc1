"""One fault under load on its own topic: struck, healed, and judged by what the mode of the stage guarantees."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.faults.fault_scenarios import Fault
from tests.faults.fault_stage import Stage
from tests.faults.fault_table import Round
from tests.faults.fault_times import pass_time
from tests.faults.java_group import JavaGroup
from tests.faults.node_group import COPIED, FLOW, PARTITIONS, PER_SECOND, NodeGroup
from tests.faults.observer import REPORTED_WITHIN
from tests.lab.arrivals import Arrivals
from tests.lab.fixtures import unique_name
from tests.lab.history import end_offset_sum, read_topic
from tests.lab.load import Load
from tests.lab.losses import Ledger, account, recorded_losses
from tests.lab.verify import Verdict, compare
from tests.lab.waiting import GaveUp, wait_until

FORGOTTEN = 60.0  # seconds until a deleted topic is not replicated any more
JAVA_COPIED = 420.0  # seconds: scheduled.rebalance.max.delay.ms is 5 minutes, and then the tasks start
STOPPED_GROWING = 45.0  # seconds without a further record, after which Java's copy is judged as it is
RECORDED = 60.0  # seconds until a loss is on record
JAVA_SETTLES = 10.0  # seconds: tasks that a rebalance moves stop first and then start


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a fault did. ``recovered``: whether records of all partitions arrived again without a restart."""

    done: str
    silence: float
    recovered: bool
    ledger: Ledger


@contextmanager
def fresh_topic(stage: Stage, fault: Fault) -> Iterator[str]:
    """A topic of one round, deleted afterwards: idle partitions of earlier rounds would cost more and more."""
    stage.wait_recovered()
    name = unique_name("t")
    fault.prepare(stage, name)
    stage.group.source.create_topic(name, PARTITIONS)
    yield name
    for cluster, one in zip(stage.clusters, (name, f"A.{name}"), strict=True):
        cluster.delete_topic(one)
    if isinstance(stage.group, NodeGroup):
        nodes = stage.group.by_name.values()
        wait_until(lambda: not any(node.topic(FLOW, name) for node in nodes), FORGOTTEN, f"{name} is gone from /flows")


def strike(stage: Stage, topic: str, fault: Fault, rng: random.Random) -> Outcome:
    """Write records, strike, and wait until all nodes copy again. Raises GaveUp, for Java only if the lab fails."""
    group, ledger = stage.group, Ledger()
    copied = JAVA_COPIED if stage.mode.java else COPIED
    with (
        Arrivals(group.target, f"A.{topic}", partitions=PARTITIONS) as arrivals,
        Load(group.source, topic, partitions=PARTITIONS, per_second=PER_SECOND, ledger=ledger) as load,
    ):
        arrivals.wait_for_all(time.monotonic(), copied)
        load.wait_for_more(rng.randrange(PER_SECOND // 10, 3 * PER_SECOND))
        began = time.monotonic()
        done = fault.strike(stage, topic, rng)
        pass_time(REPORTED_WITHIN)  # until then a lane may still copy that has lost its engine
        recovered = True
        try:
            stage.wait_recovered()  # under load: tasks move back to their nodes
            arrivals.wait_for_all(time.monotonic(), copied)
            if stage.mode.java:
                pass_time(JAVA_SETTLES)
                arrivals.wait_for_all(time.monotonic(), copied)
        except GaveUp:
            if not isinstance(group, JavaGroup):
                raise
            recovered = False
        took = time.monotonic() - began
        load.wait_for_more(PER_SECOND)
        silence = max(arrivals.gaps(began, time.monotonic()).values())
        load.stop()
    end = f"all nodes copy again after {took:.0f} s" if recovered else f"no recovery within {took:.0f} s"
    print(f"{done}; {end}; silence {silence:.1f} s")
    if isinstance(group, JavaGroup) and not recovered:
        print(f"failed: {group.failed_tasks()}")
        group.restart()
    return Outcome(done=done, silence=silence, recovered=recovered, ledger=ledger)


def judge(stage: Stage, topic: str, fault: Fault, outcome: Outcome) -> tuple[Round, str]:
    """Return the row of the table, and what the mode of the stage does not allow (empty if it allows all of it).

    Java's outcome is recorded, whatever it is.
    """
    if stage.mode.java:
        verdict = _settled(stage, topic, outcome.ledger)
        return _row(stage, fault, outcome, verdict, 0), ""
    if not fault.keeps_data:
        return _judge_losses(stage, topic, fault, outcome)
    assert isinstance(stage.group, NodeGroup)
    try:
        verdict = stage.group.verify(topic, repeats_allowed=stage.mode.repeats_allowed)
    except GaveUp as problem:
        return _row(stage, fault, outcome, _compared(stage, topic, outcome.ledger), 0), str(problem)
    return _row(stage, fault, outcome, verdict, 0), _missing_transactions(stage, topic, verdict.records)


def _missing_transactions(stage: Stage, topic: str, records: int) -> str:
    """Exactly-once must not be an accident: each transaction leaves a marker, which takes an offset."""
    ends = end_offset_sum(stage.group.target.bootstrap, f"A.{topic}")
    return f"{records} records without transactions" if stage.mode.exactly_once and ends <= records else ""


def _judge_losses(stage: Stage, topic: str, fault: Fault, outcome: Outcome) -> tuple[Round, str]:
    """Every acknowledged record is copied or on record as lost."""
    target, written = stage.group.target, outcome.ledger.written
    deadline = time.monotonic() + RECORDED
    while True:
        remote = read_topic(target.bootstrap, f"A.{topic}")
        found = account(written, remote, recorded_losses(target.bootstrap, "A", topic))
        if found.settled or time.monotonic() > deadline:
            break
        time.sleep(1.0)
    verdict = compare(written, remote)
    row = _row(stage, fault, outcome, verdict, found.recorded, lost=len(found.missing))
    problems = [] if found.settled else [str(found)]
    if not found.recorded:
        problems.append("no loss is on record")
    if verdict.duplicated and not stage.mode.repeats_allowed:
        problems.append(str(verdict))
    return row, "; ".join(problems)


def _settled(stage: Stage, topic: str, ledger: Ledger) -> Verdict:
    """Return what became of the records once all have arrived, or no further record arrives."""
    remote = stage.group.target.bootstrap, f"A.{topic}"
    end, grew = 0, time.monotonic()
    while True:
        before, end = end, end_offset_sum(*remote)
        grew = time.monotonic() if end > before else grew
        verdict = _compared(stage, topic, ledger)
        if verdict.complete or time.monotonic() - grew > STOPPED_GROWING:
            return verdict
        time.sleep(1.0)


def _compared(stage: Stage, topic: str, ledger: Ledger) -> Verdict:
    return compare(ledger.written, read_topic(stage.group.target.bootstrap, f"A.{topic}"))


def _row(
    stage: Stage, fault: Fault, outcome: Outcome, verdict: Verdict, recorded: int, *, lost: int | None = None
) -> Round:
    return Round(
        mode=str(stage.mode),
        topology=str(stage.topology),
        fault=fault.name,
        silence=outcome.silence,
        records=verdict.records,
        repeated=len(verdict.duplicated),
        lost=len(verdict.lost) if lost is None else lost,
        stale=len(verdict.stale),
        recorded=recorded,
        recovered=outcome.recovered,
    )
