"""A user-defined replication policy with checked results, so that an invalid result affects only one topic."""

from __future__ import annotations

import re

from mm2.core.plugins import Plugin
from mm2.core.policies import ReplicationPolicy, is_reserved_topic

_TOPIC = re.compile(r"[a-zA-Z0-9._-]+")

LONGEST_TOPIC = 249
"""Maximum length of a topic name in characters; brokers reject longer ones."""


class GuardedPolicy(ReplicationPolicy):
    """The results of a user-defined policy, checked. All methods raise PluginError.

    A. Every name it returns is valid on a broker.
    B. A remote topic does not have the name of an internal topic of Kafka or MirrorMaker.
    C. The name of a remote topic never changes: the copies of one topic are not spread over several topics.
    """

    def __init__(self, plugin: Plugin) -> None:
        self._plugin = plugin
        self._remote: dict[tuple[str, str], str] = {}

    def format_remote_topic(self, alias: str, topic: str) -> str:
        if (alias, topic) not in self._remote:
            name = self._topic("format_remote_topic", alias, topic)
            if name.startswith("__") or is_reserved_topic(name):
                rule = "a name reserved for internal topics of Kafka or MirrorMaker"
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
            rule = f"not a valid topic name: 1 to {LONGEST_TOPIC} letters, digits and . _ -"
            raise self._plugin.wrong(name, rule, method, *arguments)
        return name

    def _text(self, method: str, *arguments: str) -> str:
        answer = self._plugin.ask(method, *arguments)
        if not isinstance(answer, str):
            raise self._plugin.wrong(answer, "not a string", method, *arguments)
        return answer

    def _text_or_none(self, method: str, *arguments: str) -> str | None:
        answer = self._plugin.ask(method, *arguments)
        if answer is not None and not isinstance(answer, str):
            raise self._plugin.wrong(answer, "neither a string nor None", method, *arguments)
        return answer
