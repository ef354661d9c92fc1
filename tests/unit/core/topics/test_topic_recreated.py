from __future__ import annotations

import pytest

from mm2.core.topics.topic_recreated import remote_topic_recreated, source_topic_recreated, uncopied


def test_message_names_the_topic_and_the_effect_on_its_records() -> None:
    assert source_topic_recreated("orders", "A") == (
        "topic orders was deleted and recreated on A; replicating it from the beginning, the remote topic keeps the"
        " old records"
    )
    assert remote_topic_recreated("A.orders", "B") == (
        "remote topic A.orders was deleted and recreated on B; records replicated before are not in it and are not"
        " replicated again"
    )


@pytest.mark.parametrize(
    ("first", "until", "is_deleted", "expected"),
    [
        (5, 9, False, "the topic was deleted and recreated on the source before its last 4 offsets were copied"),
        (5, 9, True, "the topic was deleted on the source before its last 4 offsets were copied"),
        (
            5,
            5,
            False,
            "the topic was deleted and recreated on the source; it is unknown whether it had records from offset 5 on",
        ),
    ],
)
def test_reason_of_a_loss(first: int, until: int, expected: str, *, is_deleted: bool) -> None:
    assert uncopied(first, until, is_deleted=is_deleted) == expected
