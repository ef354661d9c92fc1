"""Source topics that a broker leaves out of its list of topics, because the node's principal may not describe them.

The list looks as if they were deleted. A request that names a topic is answered differently: with
TOPIC_AUTHORIZATION_FAILED if the right is missing, whether or not the topic exists, and with
UNKNOWN_TOPIC_OR_PARTITION if it does not exist (KafkaApis.handleTopicMetadataRequest).
"""

from __future__ import annotations

import re
from collections.abc import Collection

from mm2.config.plugins.filters import NameFilter, OwnFilter
from mm2.core.access.rights import on_topic
from mm2.core.topics.acls import Operation
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.protocol.error_codes import ErrorCode

_NAME = re.compile(r"[A-Za-z0-9._-]+")


async def hidden_topics(source: Cluster, names: Collection[str]) -> set[str]:
    """Return those of ``names``, which the source has not listed, that it may hide. Raises ClusterError."""
    if not names:
        return set()
    topics = (await source.metadata(names)).topics
    return {name for name, info in topics.items() if info.error == ErrorCode.TOPIC_AUTHORIZATION_FAILED}


def error_of_hidden(topic: str, cluster: str, *, by_name: bool) -> str:
    """Return the error of a hidden topic. ``cluster`` is the alias of the source; ``by_name``: `topics` names it."""
    absent = "does not exist, remove it from topics" if by_name else "was deleted with its ACLs, run mm2 refresh"
    return (
        f"topic {topic} is not visible on cluster {cluster};"
        f" requires {on_topic(Operation.READ, topic, cluster)} (if the topic {absent})"
    )


def topics_by_name(selects: NameFilter | OwnFilter) -> frozenset[str]:
    """Return the topics that the property ``topics`` contains by their names, rather than by a regular expression."""
    if not isinstance(selects, NameFilter):
        return frozenset()
    return frozenset(name for name in selects.include.elements if _NAME.fullmatch(name))
