from __future__ import annotations

import pytest

from mm2.core.access.acl_patterns import EVERYTHING, AclPattern, minimal, patterns_of, remote_pattern
from mm2.core.plugins import PluginError
from mm2.core.policies import DefaultReplicationPolicy, IdentityReplicationPolicy
from mm2.core.topics.acls import PatternType


def prefix(name: str) -> AclPattern:
    return AclPattern(name, PatternType.PREFIXED)


@pytest.mark.parametrize(
    ("elements", "patterns"),
    [
        ((), ()),
        (("orders",), (AclPattern("orders"),)),
        (("orders.eu",), (AclPattern("orders.eu"),)),
        ((r"orders\.eu",), (AclPattern("orders.eu"),)),
        (("orders-.*",), (prefix("orders-"),)),
        ((r"orders\..*",), (prefix("orders."),)),
        (("orders.*",), (prefix("orders"),)),
        (("orders?",), (prefix("order"),)),
        (("orders*-a",), (prefix("order"),)),
        (("a[0-9]",), (prefix("a"),)),
        (("a(bc)?",), (prefix("a"),)),
        (("a(b|c)",), (EVERYTHING,)),
        (("a|b-.*",), (AclPattern("a"), prefix("b-"))),
        ((r"a\.b|c",), (EVERYTHING,)),
        ((".*",), (EVERYTHING,)),
        (("[ab].*",), (EVERYTHING,)),
        (("",), (EVERYTHING,)),
        (("(a", "b)"), (EVERYTHING,)),
        (("orders-.*", "orders-eu", "payments"), (prefix("orders-"), AclPattern("payments"))),
        ((".*", "orders"), (EVERYTHING,)),
    ],
)
def test_patterns_of_expressions(elements: tuple[str, ...], patterns: tuple[AclPattern, ...]) -> None:
    assert patterns_of(elements) == patterns


def test_a_pattern_covers_narrower_ones() -> None:
    assert EVERYTHING.covers(prefix("a"))
    assert prefix("a").covers(prefix("ab"))
    assert prefix("a").covers(AclPattern("a"))
    assert not prefix("ab").covers(prefix("a"))
    assert not prefix("a").covers(EVERYTHING)
    assert not AclPattern("a").covers(prefix("a"))
    assert minimal([AclPattern("ab"), prefix("a"), AclPattern("ab"), AclPattern("b")]) == (prefix("a"), AclPattern("b"))


@pytest.mark.parametrize(
    ("pattern", "remote"),
    [
        (AclPattern("orders"), AclPattern("A.orders")),
        (prefix("orders-"), prefix("A.orders-")),
        (EVERYTHING, prefix("A.")),
    ],
)
def test_remote_topics_of_the_default_policy(pattern: AclPattern, remote: AclPattern) -> None:
    assert remote_pattern(pattern, DefaultReplicationPolicy(), "A") == remote


@pytest.mark.parametrize("pattern", [AclPattern("orders"), prefix("orders-"), EVERYTHING])
def test_remote_topics_that_keep_their_names(pattern: AclPattern) -> None:
    assert remote_pattern(pattern, IdentityReplicationPolicy(source_alias="A"), "A") == pattern


class Suffix(DefaultReplicationPolicy):
    def format_remote_topic(self, alias: str, topic: str) -> str:
        return f"{topic}.{alias}"


class Failing(DefaultReplicationPolicy):
    def format_remote_topic(self, alias: str, topic: str) -> str:
        raise PluginError("policy", "format_remote_topic", ValueError())


def test_a_policy_that_does_not_keep_prefixes() -> None:
    assert remote_pattern(AclPattern("orders"), Suffix(), "A") == AclPattern("orders.A")
    assert remote_pattern(prefix("orders-"), Suffix(), "A") == EVERYTHING
    assert remote_pattern(EVERYTHING, Suffix(), "A") == EVERYTHING
    assert remote_pattern(prefix("orders-"), Failing(), "A") == EVERYTHING
