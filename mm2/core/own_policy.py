"""A replication policy of a user's own, asked so that a wrong answer stops one topic and nothing else."""

from __future__ import annotations

import re

from mm2.core.plugins import Plugin
from mm2.core.policies import ReplicationPolicy, is_reserved_topic

_TOPIC = re.compile(r"[a-zA-Z0-9._-]+")

LONGEST_TOPIC = 249
"""Characters of a topic's name; brokers refuse longer ones."""


class OwnPolicy(ReplicationPolicy):
    """What the user's policy says, checked. All methods raise PluginError.

    A. A name it gives is one that a broker takes.
    B. A remote topic is not called like a topic of Kafka's or MirrorMaker's own.
    C. The name of a remote topic stays as it was given first: the copies of one topic do not scatter.
    """

    def __init__(self, plugin: Plugin) -> None:
        self._plugin = plugin
        self._remote: dict[tuple[str, str], str] = {}

    def format_remote_topic(self, alias: str, topic: str) -> str:
        if (alias, topic) not in self._remote:
            name = self._topic("format_remote_topic", alias, topic)
            if name.startswith("__") or is_reserved_topic(name):
                rule = "the name of a topic that Kafka or MirrorMaker keeps for itself"
                raise self._plugin.wrong(name, rule, "format_remote_topic", alias, topic)
            self._remote[alias, topic] = name
        return self._remote[alias, topic]

    def topic_source(self, topic: str) -> str | None:
        return self._text_or_none("topic_source", topic)

    def upstream_topic(self, topic: str) -> str | None:
        return self._text_or_none("upstream_topic", topic)

    def original_topic(self, topic: str) -> str:
        return self._text("original_topic", topic)

    def heartbeats_topic(self) -> str:
        return self._topic("heartbeats_topic")

    def offset_syncs_topic(self, alias: str) -> str:
        return self._topic("offset_syncs_topic", alias)

    def checkpoints_topic(self, alias: str) -> str:
        return self._topic("checkpoints_topic", alias)

    def is_heartbeats_topic(self, topic: str) -> bool:
        return self._plugin.ask_whether("is_heartbeats_topic", topic)

    def is_checkpoints_topic(self, topic: str) -> bool:
        return self._plugin.ask_whether("is_checkpoints_topic", topic)

    def is_mm2_internal_topic(self, topic: str) -> bool:
        return self._plugin.ask_whether("is_mm2_internal_topic", topic)

    def is_internal_topic(self, topic: str) -> bool:
        return is_reserved_topic(topic) or self._plugin.ask_whether("is_internal_topic", topic)

    def _topic(self, method: str, *arguments: str) -> str:
        name = self._text(method, *arguments)
        if not _TOPIC.fullmatch(name) or len(name) > LONGEST_TOPIC or name in (".", ".."):
            rule = f"not the name of a topic: 1 to {LONGEST_TOPIC} letters, digits and . _ -"
            raise self._plugin.wrong(name, rule, method, *arguments)
        return name

    def _text(self, method: str, *arguments: str) -> str:
        answer = self._plugin.ask(method, *arguments)
        if not isinstance(answer, str):
            raise self._plugin.wrong(answer, "not a text", method, *arguments)
        return answer

    def _text_or_none(self, method: str, *arguments: str) -> str | None:
        answer = self._plugin.ask(method, *arguments)
        if answer is not None and not isinstance(answer, str):
            raise self._plugin.wrong(answer, "neither a text nor None", method, *arguments)
        return answer
