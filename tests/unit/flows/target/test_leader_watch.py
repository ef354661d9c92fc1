"""The order of events in which a leader is lost: when each attempt at the next one is made."""

from __future__ import annotations

import pytest

from flows.partition.in_flight import InFlightBatch
from flows.partition.timeouts import TIMEOUTS
from flows.target.leader_watch import FailedLeaders
from flows.target.produce_errors import ProduceError, from_exception, from_response
from mm2.kafka.client.metadata import PartitionLeader
from mm2.kafka.errors import Unreachable
from mm2.kafka.protocol.error_codes import ErrorCode
from tests.unit.flows.replicators import WALL, arrive, data, partition, send

REFUSED = from_exception(Unreachable("connection refused"))
NOT_LEADER = from_response(ErrorCode.NOT_LEADER_OR_FOLLOWER)
LONGEST_BACKOFF = 1.0 * 1.2  # of `partition`, with its jitter
FIRST_BACKOFF = 0.1 * 1.2
STUCK_RETRY_S = TIMEOUTS.stuck_retry_s
OUTAGE = 30.0  # seconds: after a quarter of it, pauses are as long as they get
FORMER, LATER = PartitionLeader(node_id=1, epoch=5), PartitionLeader(node_id=2, epoch=6)


class Attempts:
    """One partition with the metadata that its cluster returns, and the moment at which it is."""

    def __init__(self) -> None:
        self.replicator, self.listener = partition()
        self.failed = FailedLeaders()
        self.now = 0.0

    def fail(self, node_id: int, error: ProduceError = REFUSED) -> float:
        """Send to a leader that does not take the batch; return the seconds until the next attempt."""
        self.reject(self.sent(), node_id, error)
        return self.listener.pauses[-1]

    def sent(self) -> InFlightBatch:
        if self.replicator.fetch_offset == self.replicator.position:
            arrive(self.replicator, data(self.replicator.position), now=self.now)
        return send(self.replicator, self.now)[0]

    def reject(self, entry: InFlightBatch, node_id: int, error: ProduceError = REFUSED) -> None:
        self.replicator.produce_failed(entry, error, self.now)
        self.failed.add(self.replicator, node_id)

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.replicator.wake(self.now)

    def fail_for(self, seconds: float, node_id: int, error: ProduceError = REFUSED) -> float:
        """Attempt for so long, without a success; return the next pause."""
        end = self.now + seconds
        pause = self.fail(node_id, error)
        while self.now + pause < end:
            self.wait(pause)
            pause = self.fail(node_id, error)
        return pause

    def look_up(self, leader: PartitionLeader | None) -> bool:
        """Metadata arrives; return whether the partition may send at once."""
        self.failed.looked_up(self.failed.waiting(), {self.replicator.target: leader}.get)
        return self.replicator.fetch_offset is not None


@pytest.fixture
def attempts() -> Attempts:
    return Attempts()


def test_pauses_grow_while_one_leader_fails(attempts: Attempts) -> None:
    assert attempts.fail(1) < FIRST_BACKOFF
    attempts.wait(1.0)
    assert attempts.fail_for(OUTAGE, 1) == STUCK_RETRY_S
    assert not attempts.look_up(FORMER)


@pytest.mark.parametrize("error", [NOT_LEADER, REFUSED], ids=["does not know that it leads", "cannot be reached"])
def test_a_new_leader_that_is_not_ready_is_asked_again_after_the_ordinary_backoff(
    attempts: Attempts, error: ProduceError
) -> None:
    attempts.fail_for(OUTAGE, 1)
    assert not attempts.look_up(FORMER)
    assert attempts.look_up(LATER), "the new leader ends the pause"
    assert attempts.fail(2, error) < FIRST_BACKOFF
    assert not attempts.replicator.can_send(attempts.now)
    for _ in range(3):
        assert attempts.failed.waiting() == [attempts.replicator], "it is watched in case that another one is elected"
        attempts.look_up(LATER)
        attempts.wait(attempts.listener.pauses[-1])
        assert attempts.replicator.can_send(attempts.now)
        assert attempts.fail(2, error) < LONGEST_BACKOFF


def test_a_new_leader_that_keeps_failing_gets_growing_pauses(attempts: Attempts) -> None:
    attempts.fail_for(OUTAGE, 1)
    assert attempts.look_up(LATER)
    assert attempts.fail_for(OUTAGE, 2, NOT_LEADER) == STUCK_RETRY_S


def test_each_of_several_elections_ends_the_pause(attempts: Attempts) -> None:
    attempts.fail_for(OUTAGE, 1)
    assert attempts.look_up(LATER)
    attempts.fail_for(OUTAGE, 2)
    assert not attempts.look_up(LATER)
    assert attempts.look_up(PartitionLeader(node_id=2, epoch=7)), "the same broker, elected again"
    attempts.fail_for(OUTAGE, 2)
    assert attempts.look_up(PartitionLeader(node_id=1, epoch=8))


def test_a_leader_after_none_is_new(attempts: Attempts) -> None:
    attempts.fail_for(OUTAGE, 1)
    assert not attempts.look_up(None), "no broker answers, or the partition has no leader"
    assert attempts.look_up(FORMER)


def test_a_leader_that_accepts_a_batch_is_no_longer_watched(attempts: Attempts) -> None:
    attempts.fail_for(OUTAGE, 1)
    assert attempts.look_up(LATER)
    attempts.fail(2)
    attempts.wait(FIRST_BACKOFF)
    attempts.replicator.acknowledged(attempts.sent(), 70, attempts.now, WALL)
    assert attempts.failed.waiting() == []


def test_a_partition_waits_for_a_leader_while_other_batches_are_in_flight(attempts: Attempts) -> None:
    """The failure counts once all are answered, and the answer that comes last need not be one of the leader."""
    replicator = attempts.replicator
    arrive(replicator, data(0), now=0.0)
    replicator.acknowledged(send(replicator)[0], 70, 0.0, WALL)
    arrive(replicator, data(1), data(2), now=0.0)
    first, second = send(replicator)
    attempts.reject(first, 1, NOT_LEADER)
    assert attempts.failed.waiting() == [replicator]
    replicator.acknowledged(second, 71, 0.0, WALL)
    assert attempts.failed.waiting() == [replicator]


def test_a_partition_that_has_left_is_not_watched(attempts: Attempts) -> None:
    attempts.fail(1)
    waiting = attempts.failed.waiting()
    attempts.failed.remove(attempts.replicator)
    attempts.failed.looked_up(waiting, {attempts.replicator.target: LATER}.get)
    assert not attempts.replicator.can_send(attempts.now)
