"""Messages about a topic that was deleted and recreated: its topic ID has changed (KIP-516)."""

from __future__ import annotations


def source_topic_recreated(topic: str, cluster: str) -> str:
    """Return the message for a recreated source topic."""
    return (
        f"topic {topic} was deleted and recreated on {cluster}; replicating it from the beginning, the remote topic"
        " keeps the old records"
    )


def uncopied(first: int, until: int, *, is_deleted: bool) -> str:
    """Return the reason of a loss: a source topic was deleted (and recreated) before it was copied to its end."""
    what = "deleted" if is_deleted else "deleted and recreated"
    if until <= first:
        return f"the topic was {what} on the source; it is unknown whether it had records from offset {first} on"
    return f"the topic was {what} on the source before its last {until - first} offsets were copied"


def remote_topic_recreated(remote_topic: str, cluster: str) -> str:
    """Return the message for a recreated remote topic."""
    return (
        f"remote topic {remote_topic} was deleted and recreated on {cluster}; records replicated before are not in it"
        " and are not replicated again"
    )
