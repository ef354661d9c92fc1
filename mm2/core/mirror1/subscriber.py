"""The members of a consumer group, as the assignors of Java's consumer see them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscriber:
    """A member of the group with the topics it subscribes to. ``instance_id`` is its group.instance.id, if set."""

    member_id: str
    topics: Collection[str]
    instance_id: str | None = None


def in_order(members: Collection[Subscriber]) -> list[Subscriber]:
    """Return members in the order of group.instance.id (KIP-345), then of member IDs for those without one.

    Source: MemberInfo (AbstractPartitionAssignor) of Kafka 3.9 and 4.3.
    """
    return sorted(members, key=_order)


def _order(member: Subscriber) -> tuple[bool, bytes]:
    text = member.member_id if member.instance_id is None else member.instance_id
    return member.instance_id is None, utf_16(text)


def utf_16(text: str) -> bytes:
    """Return what orders strings as Java does: by UTF-16 units."""
    return text.encode("utf-16-be", errors="surrogatepass")
