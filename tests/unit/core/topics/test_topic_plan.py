from __future__ import annotations

import pytest

from mm2.core.naming.names import Flow
from mm2.core.policies import DefaultReplicationPolicy, IdentityReplicationPolicy, ReplicationPolicy
from mm2.core.topics.topic_configs import ConfigEntry, ConfigSource, configs_to_create
from mm2.core.topics.topic_plan import (
    CreateTopic,
    GrowTopic,
    NameClash,
    plan_topics,
    returned_copies,
    returned_from,
    without_own_copies,
)


class Merging(DefaultReplicationPolicy):
    """A user's policy that maps different topics to the same name."""

    def format_remote_topic(self, alias: str, topic: str) -> str:
        return f"{alias}.{topic.lower()}"


def test_missing_topics_and_partitions_are_created() -> None:
    plan = plan_topics(
        {"orders": 3, "invoices": 6, "payments": 2, "users": 4},
        {"A.invoices": 4, "A.payments": 2, "A.users": 8, "orders": 3},
        policy=DefaultReplicationPolicy(),
        source_alias="A",
    )
    assert plan.create == (CreateTopic(topic="orders", remote_topic="A.orders", partitions=3),)
    assert plan.grow == (GrowTopic(topic="invoices", remote_topic="A.invoices", present=4, partitions=6),)
    assert plan.clashes == ()
    assert plan.remote_topics == {
        "invoices": "A.invoices",
        "orders": "A.orders",
        "payments": "A.payments",
        "users": "A.users",
    }


def test_topic_with_an_unchanged_name_exists_on_the_target() -> None:
    policy = IdentityReplicationPolicy(source_alias="A")
    plan = plan_topics({"orders": 3}, {"orders": 3}, policy=policy, source_alias="A")
    assert (plan.create, plan.grow) == ((), ())


def test_own_copies_if_both_aliases_are_one_cluster() -> None:
    topics = {"orders": 3, "A.orders": 3, "A.A.orders": 3, "C.orders": 1, "heartbeats": 1, "A.heartbeats": 1}
    kept, onto_themselves = without_own_copies(topics, policy=DefaultReplicationPolicy(), source_alias="A")
    assert kept == {"orders": 3, "C.orders": 1, "heartbeats": 1}
    assert onto_themselves == set()


def test_own_copies_are_not_copied_again_if_their_source_is_ambiguous() -> None:
    topics = {"orders": 3, "us.west.orders": 3, "us.west.us.west.orders": 3}
    kept, _ = without_own_copies(topics, policy=DefaultReplicationPolicy(), source_alias="us.west")
    assert kept == {"orders": 3}


def test_topics_that_would_be_copied_onto_themselves() -> None:
    topics = {"orders": 3, "heartbeats": 1, "A.heartbeats": 1}
    policy = IdentityReplicationPolicy(source_alias="A")
    kept, onto_themselves = without_own_copies(topics, policy=policy, source_alias="A")
    assert kept == {"orders": 3, "heartbeats": 1}
    assert onto_themselves == {"orders"}


BY_ALIAS = DefaultReplicationPolicy()
KEEPING = IdentityReplicationPolicy(source_alias="east")


@pytest.mark.parametrize(
    ("topic", "policy", "returned"),
    [
        ("remote.east.orders", BY_ALIAS, "east.orders"),
        ("third.remote.east.orders", BY_ALIAS, "east.orders"),  # through another cluster
        ("remote.east.remote.east.orders", BY_ALIAS, "east.orders"),  # two rounds, before it was detected
        ("remote.east.heartbeats", KEEPING, "east.heartbeats"),
        ("east.orders", BY_ALIAS, None),  # a user's topic on east, which happens to begin with an alias
        ("remote.east.users", BY_ALIAS, None),  # the target has no east.users
        ("remote.orders", BY_ALIAS, None),  # an original of the other cluster
        ("remote.east.orders", KEEPING, None),  # its copy is called remote.east.orders, too
        ("remote_east_orders", BY_ALIAS, None),
    ],
)
def test_copies_of_this_flow_that_come_back_under_another_alias(
    topic: str, policy: ReplicationPolicy, returned: str | None
) -> None:
    """KAFKA-9914: clusters east and west, which another file calls home and remote."""
    candidates = {topic: returned_from(topic, policy=policy, source_alias="east")}
    found = returned_copies(candidates, {"east.orders", "east.heartbeats", "orders"}, Flow("east", "west"))
    assert {name: copy.remote_topic for name, copy in found.items()} == ({topic: returned} if returned else {})


def test_reason_of_a_copy_that_comes_back_names_the_key() -> None:
    (copy,) = returned_copies({"remote.east.orders": ("east.orders",)}, {"east.orders"}, Flow("east", "west")).values()
    assert str(copy) == (
        "topic remote.east.orders is a copy of east.orders, which this flow itself wrote to west, so it would be copied"
        " in circles; to copy it, set east->west.mm2.copy.returned.topics = true"
    )


def test_conflicting_topics_are_excluded_and_reported() -> None:
    plan = plan_topics({"Orders": 3, "orders": 6, "users": 1}, {}, policy=Merging(), source_alias="A")
    assert plan.clashes == (NameClash(remote_topic="A.orders", topics=("Orders", "orders")),)
    assert str(plan.clashes[0]).startswith("Orders, orders all map to remote topic A.orders")
    assert plan.remote_topics == {"users": "A.users"}
    assert [action.topic for action in plan.create] == ["users"]


def test_hidden_values_are_not_copied() -> None:
    entry = ConfigEntry(name="retention.ms", value=None, source=ConfigSource.DYNAMIC_TOPIC_CONFIG)
    assert configs_to_create([entry], excluded=lambda _: False) == {}


def test_future_config_sources_are_unknown() -> None:
    assert ConfigSource(99) is ConfigSource.UNKNOWN
