"""The replication policy of a flow by the class name in the file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from importlib import import_module
from typing import cast

from mm2.config.connectors import JAVA_MIRROR, SourceSettings
from mm2.config.java_types import one_of_words
from mm2.config.problems import ProblemLog
from mm2.config.values import Properties
from mm2.core.names import Flow
from mm2.core.policies import ReplicationPolicy

POLICIES: Mapping[str, str] = {
    f"{JAVA_MIRROR}.DefaultReplicationPolicy": "mm2.core.policies:DefaultReplicationPolicy",
    f"{JAVA_MIRROR}.IdentityReplicationPolicy": "mm2.core.policies:IdentityReplicationPolicy",
}
"""Java's class name to ours: a dataclass whose fields are among ``separator``, ``internal_separator_enabled`` and
``source_alias``."""


def read_policy(source: SourceSettings, flow: Flow, properties: Properties, problems: ProblemLog) -> ReplicationPolicy:
    """The policy that names the remote topics of ``flow``; the default one when the class is unknown."""
    name = source.replication_policy_class
    if name not in POLICIES:
        properties["replication.policy.class"].refuse(
            problems,
            f"must be {one_of_words(tuple(POLICIES))}: classes of your own come with a later release, and remote "
            "topics would get other names.",
        )
        name = next(iter(POLICIES))
    module, _, attribute = POLICIES[name].partition(":")
    policy = getattr(import_module(module), attribute)
    told = {
        "separator": source.replication_policy_separator,
        "internal_separator_enabled": source.internal_topic_separator_enabled,
        "source_alias": flow.source,
    }
    wanted = {field.name: told[field.name] for field in fields(policy)}
    return cast(ReplicationPolicy, policy(**wanted))
