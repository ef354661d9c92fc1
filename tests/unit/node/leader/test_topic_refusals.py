"""The key of the file that lets a topic through which the target rejects."""

from __future__ import annotations

from pathlib import Path

import pytest

from mm2.kafka.errors import BrokerError
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.node.leader.topic_refusals import exclude_key, exclude_rejected, keys_of_refusal
from tests.unit.config import files

CONFIGS = ("retention.ms", "local.retention.ms", "cleanup.policy")


@pytest.mark.parametrize(
    ("code", "words", "keys"),
    [
        (ErrorCode.INVALID_REPLICATION_FACTOR, None, ["A->B.replication.factor, which is 2"]),
        (
            ErrorCode.INVALID_CONFIG,
            "Unknown topic config name: local.retention.ms",
            ["add local.retention.ms to A->B.config.properties.exclude"],
        ),
        (ErrorCode.INVALID_CONFIG, None, ["add the configuration to A->B.config.properties.exclude"]),
        (
            ErrorCode.POLICY_VIOLATION,
            "too many partitions",
            ["A->B.replication.factor", "A->B.config.properties.exclude", "A->B.topics.exclude leaves orders out"],
        ),
        (ErrorCode.INVALID_TOPIC_EXCEPTION, None, ["A->B.replication.policy.class", "A->B.topics.exclude"]),
        (ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is longer than 249", ["a name has at most 249 letters"]),
        (
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            "Topic 'A.my_topic' collides with existing topic: A.my.topic",
            ["differs in dots and underscores only", "A->B.topics.exclude leaves orders out"],
        ),
        (ErrorCode.INVALID_PARTITIONS, None, ["with fewer partitions", "A->B.topics.exclude leaves orders out"]),
        (ErrorCode.THROTTLING_QUOTA_EXCEEDED, None, ["retrying", "controller_mutation_rate"]),
    ],
)
def test_error_names_the_key(tmp_path: Path, code: ErrorCode, words: str | None, keys: list[str]) -> None:
    error = BrokerError(code, "create topic A.orders", words)
    found = keys_of_refusal(error, files.flow(tmp_path), "orders", CONFIGS)
    assert found.startswith("; ")
    assert [key for key in keys if key not in found] == []


def test_other_errors_have_no_key(tmp_path: Path) -> None:
    error = BrokerError(ErrorCode.REQUEST_TIMED_OUT, "create topic A.orders")
    assert keys_of_refusal(error, files.flow(tmp_path), "orders") == ""


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("Invalid value 9 for configuration min.insync.replicas", "min.insync.replicas"),
        ("not permitted here", "retention.ms, min.insync.replicas"),
    ],
)
def test_only_what_the_broker_names_is_to_be_excluded(tmp_path: Path, words: str, names: str) -> None:
    error = BrokerError(ErrorCode.INVALID_CONFIG, "alter topic A.orders", words)
    found = exclude_rejected(files.flow(tmp_path), error, ["retention.ms", "min.insync.replicas"])
    assert found == f"add {names} to A->B.config.properties.exclude"


def test_custom_filter_has_no_list(tmp_path: Path) -> None:
    own = "config.property.filter.class = tests.integration.node.user_filters:Moody\n"
    assert exclude_key(files.flow(tmp_path, own), ["retention.ms"]) == (
        "let A->B.config.property.filter.class exclude retention.ms"
    )
