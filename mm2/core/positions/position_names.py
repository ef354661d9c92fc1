"""The name of a topic on the other cluster of a flow, and why it has none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mm2.core.naming.names import Flow, TopicPartition
from mm2.core.offsets.checkpoints import remote_topic
from mm2.core.topics.replication_filter import ReplicationFilter, TopicVerdict


class PositionRejectedError(ValueError):
    """A position that the flow cannot translate. ``rule`` names its topic and says why, ``fix`` what to do."""

    def __init__(self, rule: str, fix: str) -> None:
        self.rule = rule
        self.fix = fix
        super().__init__(f"{rule} (fix: {fix})")


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionNames:
    """The topics of one flow on both clusters.

    ``refusal`` returns why the file does not select a source topic. Methods raise PluginError if a custom policy or
    filter fails.
    """

    flow: Flow
    topics: ReplicationFilter
    refusal: Callable[[str], str | None]

    def remote(self, topic: str) -> str:
        """Return the name on the target of source topic ``topic``. Raises PositionRejectedError."""
        verdict = self.topics.verdict(topic)
        if verdict is TopicVerdict.REPLICATED:
            return remote_topic(topic, aliases=self.topics.aliases, policy=self.topics.policy)
        reason = self.refusal(topic) if verdict is TopicVerdict.NOT_SELECTED else None
        upstream = self._upstream(topic)
        raise PositionRejectedError(
            f"{self.flow} does not copy topic {topic}: {reason or verdict.value}",
            "use the name on the source"
            if upstream is None
            else f"use its name on the source, {upstream}, or --reverse for a position on the target",
        )

    def rejection(self, topic: str) -> PositionRejectedError | None:
        """Return why source topic ``topic`` has no name on the target; None if it has one."""
        try:
            self.remote(topic)
        except PositionRejectedError as error:
            return error
        return None

    def source(self, remote: str) -> str:
        """Return the name on the source of topic ``remote`` of the target. Raises PositionRejectedError."""
        upstream = self._upstream(remote)
        if upstream is None:
            example = self.topics.policy.format_remote_topic(self.topics.aliases.source, "orders")
            raise PositionRejectedError(
                f"{remote} is not a remote topic of {self.flow}",
                f"use the name on the target, such as {example} for orders, or leave out --reverse for a position on"
                " the source",
            )
        self.remote(upstream)
        return upstream

    def other(self, topic: str, *, reverse: bool) -> str:
        """Return the name on the other cluster: `source` with ``reverse``, else `remote`."""
        return self.source(topic) if reverse else self.remote(topic)

    def _upstream(self, remote: str) -> str | None:
        """Return the source topic whose copy is ``remote``, if its name tells it."""
        policy, alias = self.topics.policy, self.topics.aliases.source
        for candidate in (policy.upstream_topic(remote), remote):
            if candidate is not None and policy.format_remote_topic(alias, candidate) == remote:
                return candidate
        return None


def check_partition(flow: Flow, remote: TopicPartition, partitions: int | None) -> None:
    """Raise PositionRejectedError unless the target has the partition; it has ``partitions``, None: no such topic."""
    target = flow.target
    if partitions is None:
        raise PositionRejectedError(
            f"topic {remote.topic} does not exist on {target}: nothing of it has been copied",
            "correct the name, or wait until the flow has created it",
        )
    if remote.partition >= partitions:
        last = f"partitions 0 to {partitions - 1}" if partitions > 1 else "only partition 0"
        raise PositionRejectedError(
            f"partition {remote.partition} does not exist: {remote.topic} on {target} has {last}",
            "correct the number, or wait until the flow has added it",
        )
