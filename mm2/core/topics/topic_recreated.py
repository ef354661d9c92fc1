"""Messages about a topic that was deleted and recreated: its topic ID has changed (KIP-516)."""

from __future__ import annotations


def source_topic_recreated(topic: str, cluster: str) -> str:
    """Return the message for a recreated source topic."""
    return (
        f"topic {topic} was deleted and recreated on {cluster}; replicating it from the beginning, the remote topic"
        " keeps the old records"
    )


def remote_topic_recreated(remote_topic: str, cluster: str) -> str:
    """Return the message for a recreated remote topic."""
    return (
        f"remote topic {remote_topic} was deleted and recreated on {cluster}; records replicated before are not in it"
        " and are not replicated again"
    )
