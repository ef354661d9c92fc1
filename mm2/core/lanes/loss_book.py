"""The losses of a flow as its losses topic records them, the newest state of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from mm2.core.lanes.losses import LOSSES_KEPT, Loss, LossKey, with_acceptance_of
from mm2.core.naming.names import TopicPartition

UnacceptedLosses = Mapping[tuple[TopicPartition, str], int]
"""The number of losses that no operator has accepted or intended, by remote partition and kind."""


class LossBook:
    """Every recorded loss by its key.

    (A) A loss keeps the earliest time at which it was noticed: a lane that notices it again does not know when it was.
    (B) An acceptance lasts until the loss has grown. A lane that notices a loss again after its restart does not know
        of an acceptance, and its record replaces the accepted one.
    """

    def __init__(self) -> None:
        self._losses: dict[LossKey, Loss] = {}
        self._unaccepted: dict[LossKey, Loss] = {}
        self._newest: dict[TopicPartition, Loss] = {}

    def take(self, loss: Loss) -> Loss:
        """Add a recorded loss, or a newer record of one; return its state now."""
        before = self._losses.pop(loss.key, None)
        self._unaccepted.pop(loss.key, None)
        loss = self._losses[loss.key] = loss if before is None else newer_state(before, loss)
        if loss.is_unaccepted:
            self._unaccepted[loss.key] = loss
        self._newest[TopicPartition(loss.topic, loss.partition)] = loss
        return loss

    def remove(self, key: LossKey) -> None:
        """Remove a loss whose record was deleted."""
        loss = self._losses.pop(key, None)
        self._unaccepted.pop(key, None)
        if loss is not None and self._newest.get(TopicPartition(loss.topic, loss.partition)) == loss:
            del self._newest[TopicPartition(loss.topic, loss.partition)]

    def newest(self, partition: TopicPartition) -> Loss | None:
        """Return the loss of the partition that was recorded last, if any."""
        return self._newest.get(partition)

    @property
    def unaccepted(self) -> tuple[Loss, ...]:
        """The losses that no operator has accepted or intended, in the order of their last records."""
        return tuple(self._unaccepted.values())

    def as_recorded(self, loss: Loss) -> Loss:
        """Return a reported loss with the time and the acceptance that are recorded of it, if it is recorded."""
        known = self._losses.get(loss.key)
        return loss if known is None else newer_state(known, loss)

    def shown(self, reported: Iterable[Loss]) -> tuple[Loss, ...]:
        """Return the unaccepted losses, at most the newest `LOSSES_KEPT`, and those that a node has reported."""
        newest = {loss.key: loss for loss in self.unaccepted[-LOSSES_KEPT:]}
        for loss in reported:
            newest.pop(loss.key, None)
            newest[loss.key] = self.as_recorded(loss)
        return tuple(newest.values())[-LOSSES_KEPT:]

    def count_unaccepted(self, reported: Iterable[Loss], remote_name: Callable[[str], str]) -> UnacceptedLosses:
        """Count the unaccepted losses, also those that a node has ``reported`` and that are not recorded yet.

        ``remote_name`` returns the remote topic of a source topic, for records of earlier releases.
        """
        found = dict(self._unaccepted)
        for loss in map(self.as_recorded, reported):
            if loss.is_unaccepted:
                found[loss.key] = loss
        counts: Counter[tuple[TopicPartition, str]] = Counter()
        for loss in found.values():
            remote = remote_name(loss.topic) if loss.remote_topic is None else loss.remote_topic
            counts[TopicPartition(remote, loss.partition), str(loss.kind)] += loss.count
        return dict(counts)


def newer_state(before: Loss, after: Loss) -> Loss:
    """Return the state of a loss after another record of it: (A), (B) of `LossBook`."""
    times = [one.time for one in (before, after) if one.time is not None]
    remote = before.remote_topic if after.remote_topic is None else after.remote_topic
    if after.until < before.until:
        after = before  # the record is older than the extent, such as an acceptance during which the loss has grown
    elif before.accepted and not after.accepted and after.until == before.until:
        after = with_acceptance_of(before, after)
    return replace(after, time=min(times, default=None), remote_topic=remote)
