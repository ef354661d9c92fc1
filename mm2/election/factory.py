"""Creation of a flow's election: by its Kafka group, or by another backend while that group is held."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from mm2.core.settings.election import ElectionSettings
from mm2.election.group_guarded_election import GroupGuardedElection
from mm2.election.kafka.group_messages import HOLDING
from mm2.election.kafka.kafka_group import GroupSettings, KafkaGroup
from mm2.election.protocol import Assign, Election, Json, MemberInfo
from mm2.kafka.client.cluster import Cluster

ElectionOfGroup = Callable[[Cluster, GroupSettings, MemberInfo, Assign], Election]
"""Creates the election of a Kafka group, not entered yet."""


def choose_election(
    backend: ElectionSettings | None,
    cluster: Cluster,
    group: GroupSettings,
    info: MemberInfo,
    assign: Assign,
    *,
    by_group: ElectionOfGroup = KafkaGroup,
) -> Election:
    """Return a flow's election, not entered yet: by ``backend`` if given, otherwise by the ``group`` itself.

    ``cluster`` is a separate client of the flow's target. A group that is only held has one protocol name for each of
    the backend's places, so the broker rejects a node that uses a different election.
    """
    if backend is None:
        return by_group(cluster, group, info, assign)
    protocols = tuple(f"{HOLDING}{place}" for place in backend.places)
    held = by_group(cluster, replace(group, protocols=protocols), info, _assign_nothing)
    return GroupGuardedElection(held, lambda latest, joined: backend.make(latest, assign, joined), info)


def _assign_nothing(_generation: int, _members: Mapping[str, MemberInfo]) -> dict[str, Json]:
    """Return no assignments: in a held group the backend assigns."""
    return {}
