from __future__ import annotations

import pytest

from flows.target.size_limits import size_limit
from mm2.core.topics.topic_configs import ConfigEntry, ConfigSource


def entry(name: str, value: str | None) -> ConfigEntry:
    return ConfigEntry(name=name, value=value, read_only=False, source=ConfigSource(5), sensitive=False)


@pytest.mark.parametrize(
    ("values", "limit"),
    [
        ({"max.message.bytes": "1048588", "segment.bytes": "1073741824"}, 1_048_588),
        ({"max.message.bytes": "1048588", "segment.bytes": "100000"}, 100_000),
        ({"max.message.bytes": "0", "segment.bytes": "1073741824"}, 0),
        ({"max.message.bytes": None, "segment.bytes": "100000"}, 100_000),
        ({"max.message.bytes": "large"}, None),
        ({"retention.ms": "5"}, None),
    ],
)
def test_the_lower_of_two_limits(values: dict[str, str | None], limit: int | None) -> None:
    assert size_limit({name: entry(name, value) for name, value in values.items()}) == limit
