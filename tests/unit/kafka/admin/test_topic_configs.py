"""The requests about topic configurations, byte for byte against aiokafka's field types."""

from __future__ import annotations

from aiokafka.protocol.admin import DescribeConfigsResponse_v1

from mm2.core.topics.topic_configs import ConfigEntry, ConfigSource, DeleteConfig, SetConfig
from mm2.kafka.admin.topic_configs import DescribeConfigsRequest, IncrementalAlterConfigsRequest, _resources
from mm2.kafka.errors import BrokerError

ENTRY: tuple[object, ...] = ("retention.ms", "1000", False, 1, False, [])


def read(*resources: tuple[object, ...]) -> dict[str, object]:
    request = DescribeConfigsRequest(["orders"], cluster="A").prepare({32: (0, 4)})
    found: dict[str, object] = request.decode(bytes(4) + DescribeConfigsResponse_v1(0, list(resources)).encode())
    return found


def test_entries_with_and_without_synonyms() -> None:
    synonyms = [("log.retention.ms", None, 5), ("log.retention.hours", "168", 4)]
    hidden = ("pässword", None, True, 99, True, synonyms)
    retention = ConfigEntry(name="retention.ms", value="1000", source=ConfigSource.DYNAMIC_TOPIC_CONFIG)
    assert read((0, None, 2, "orders", [ENTRY, hidden]), (0, "", 2, "other", [ENTRY])) == {
        "orders": {
            "retention.ms": retention,
            "pässword": ConfigEntry(
                name="pässword", value=None, source=ConfigSource.UNKNOWN, read_only=True, sensitive=True
            ),
        },
        "other": {"retention.ms": retention},
    }


def test_a_rejection_names_the_missing_right() -> None:
    found = read((29, "Topic authorization failed.", 2, "orders", []), (0, None, 2, "other", [ENTRY]))
    assert str(found["orders"]) == (
        "cannot describe configuration of topic orders: TOPIC_AUTHORIZATION_FAILED;"
        " requires DESCRIBE_CONFIGS on topic orders of cluster A"
    )
    assert not isinstance(found["other"], BrokerError)


def test_changes_of_a_topic_stay_together_and_requests_stay_small() -> None:
    changes = {
        f"orders-{number}": [SetConfig(name=f"c{n}", value="1", before=None) for n in range(2_000)]
        for number in range(3)
    }
    chunks = list(_resources(changes))
    assert [[(name, len(rows)) for _, name, rows in chunk] for chunk in chunks] == [
        [("orders-0", 2_000), ("orders-1", 2_000)],
        [("orders-2", 2_000)],
    ]


def test_set_and_delete() -> None:
    changes: list[SetConfig | DeleteConfig] = [
        SetConfig(name="a", value="1", before=None),
        DeleteConfig(name="b", before="2"),
    ]
    (resources,) = _resources({"orders": changes})
    request = IncrementalAlterConfigsRequest(resources).prepare({44: (0, 1)})
    assert (
        request.encode()
        == (
            b"\0\0\0\1"  # one resource
            b"\2\0\6orders"  # a topic
            b"\0\0\0\2"
            b"\0\1a\0\0\1" + b"1"  # SET is 0
            b"\0\1b\1\xff\xff"  # DELETE is 1, without a value
            b"\0"  # not only validated
        )
    )
