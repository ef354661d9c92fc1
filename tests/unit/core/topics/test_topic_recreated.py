from __future__ import annotations

from mm2.core.topics.topic_recreated import remote_topic_recreated, source_topic_recreated


def test_message_names_the_topic_and_the_effect_on_its_records() -> None:
    assert source_topic_recreated("orders", "A") == (
        "topic orders was deleted and recreated on A; replicating it from the beginning, the remote topic keeps the"
        " old records"
    )
    assert remote_topic_recreated("A.orders", "B") == (
        "remote topic A.orders was deleted and recreated on B; records replicated before are not in it and are not"
        " replicated again"
    )
