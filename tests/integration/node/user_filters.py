"""Custom classes with errors."""

from __future__ import annotations

from mm2.core.plugins import ConfigPropertyFilter
from mm2.core.policies import DefaultReplicationPolicy


class Moody(ConfigPropertyFilter):
    """Raises for one configuration while it is in a bad mood."""

    moody = True

    def should_replicate_config_property(self, name: str) -> bool:
        if Moody.moody and name == "flush.ms":
            raise ValueError("not today")
        return True


class MoodyPolicy(DefaultReplicationPolicy):
    """Names no remote topic of topics that begin with "moody" while it is in a bad mood."""

    moody = True

    def format_remote_topic(self, alias: str, topic: str) -> str:
        if MoodyPolicy.moody and topic.startswith("moody"):
            raise ValueError("not today")
        return super().format_remote_topic(alias, topic)
