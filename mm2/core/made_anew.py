"""What people are told when a topic turns out to be another one of the same name (its id is another one: KIP-516)."""

from __future__ import annotations


def source_made_anew(topic: str, cluster: str) -> str:
    """The source topic; what it was to be copied of before is gone."""
    return (
        f"topic {topic} was deleted and made anew on {cluster}: it is copied from its beginning, and its remote topic"
        " keeps the old records"
    )


def remote_made_anew(remote_topic: str, cluster: str) -> str:
    """The remote topic; what was copied before is not copied again."""
    return (
        f"remote topic {remote_topic} was deleted and made anew on {cluster}: what was copied before is not in it, and"
        " is not copied again"
    )
