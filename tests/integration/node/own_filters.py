"""Filters as users may get them wrong."""

from __future__ import annotations

from mm2.core.plugins import ConfigPropertyFilter


class Moody(ConfigPropertyFilter):
    """It has no answer about one configuration, until it has."""

    moody = True

    def should_replicate_config_property(self, name: str) -> bool:
        if Moody.moody and name == "flush.ms":
            raise ValueError("not today")
        return True
