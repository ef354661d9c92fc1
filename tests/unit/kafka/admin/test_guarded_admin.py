"""A user's own admin class: every call returns a result or raises a ClusterError that names the class."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from mm2.core.settings.client import ClientSettings
from mm2.core.topics.acls import Acl, Operation
from mm2.core.topics.topic_configs import SetConfig
from mm2.kafka.admin.cluster_admin import ClusterAdmin, Refusals
from mm2.kafka.admin.guarded_admin import GuardedAdmin, UserAdminFailed
from mm2.kafka.admin.topics import NewTopic
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import BrokerError, Unreachable
from mm2.kafka.protocol.error_codes import ErrorCode

REFUSED = BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "create topic b")
TOPICS = [NewTopic(name=name, partitions=1, replication_factor=1) for name in "ab"]
CHANGE = SetConfig(name="retention.ms", value="1", before=None)
ACL = Acl(name="a", principal="User:alice", operation=Operation.READ)


def cluster() -> Cluster:
    return Cluster(ClientSettings(alias="B", bootstrap_servers=("localhost:1",), client_id="test"))


class Ours(ClusterAdmin):
    """Behaves as its properties require."""

    def configure(self, properties: Mapping[str, str]) -> None:
        self.does = properties["does"]

    async def create_topics(self, topics: Sequence[NewTopic], *, timeout_ms: int = 0) -> Refusals:
        match self.does:
            case "sleeps":
                await asyncio.sleep(60)
            case "raises":
                raise RuntimeError("no quota")
            case "is away":
                raise Unreachable("nobody is there")
            case "says nothing":
                return None  # type: ignore[return-value]
            case "forgets":
                return {"a": None}
            case "invents":
                return {"a": None, "b": "no"}  # type: ignore[dict-item]
        return {"a": None, "b": REFUSED, "c": None}

    async def create_partitions(self, totals: Mapping[str, int], *, timeout_ms: int = 0) -> Refusals:
        return {name: None if total == timeout_ms else REFUSED for name, total in totals.items()}

    async def alter_topic_configs(self, changes: Mapping[str, object], *, timeout_ms: int = 0) -> Refusals:
        return {name: None if change == [CHANGE] else REFUSED for name, change in changes.items() if timeout_ms == 7}

    async def create_acls(self, acls: Sequence[Acl], *, timeout_ms: int = 0) -> dict[Acl, BrokerError | None]:
        return dict.fromkeys(acls)


def admin(does: str = "works") -> GuardedAdmin:
    return GuardedAdmin("my:Ours", Ours, {"does": does}, cluster())


async def test_results_are_passed_through() -> None:
    assert await admin().create_topics(TOPICS) == {"a": None, "b": REFUSED}
    assert await admin().create_partitions({"a": 7}, timeout_ms=7) == {"a": None}
    assert await admin().alter_topic_configs({"a": [CHANGE]}, timeout_ms=7) == {"a": None}
    assert await admin().create_acls([ACL]) == {ACL: None}


@pytest.mark.parametrize(
    ("does", "sentence"),
    [
        ("sleeps", "create_topics did not return within 40 ms"),
        ("raises", "create_topics raised RuntimeError: no quota (test_guarded_admin.py:"),
        ("says nothing", "create_topics returned a NoneType, not a dict"),
        ("forgets", "create_topics must return None or a BrokerError for b"),
        ("invents", "create_topics must return None or a BrokerError for b"),
    ],
)
async def test_any_other_result_is_a_retriable_error(does: str, sentence: str) -> None:
    with pytest.raises(UserAdminFailed) as caught:
        await admin(does).create_topics(TOPICS, timeout_ms=20)
    assert str(caught.value).startswith(f"forwarding.admin.class my:Ours: {sentence}")
    assert caught.value.retriable


async def test_a_method_with_other_parameters_is_a_retriable_error() -> None:
    class Short(ClusterAdmin):
        async def create_topics(self, topics: Sequence[NewTopic]) -> Refusals:  # type: ignore[override]
            return {}

    with pytest.raises(UserAdminFailed, match=r"create_topics raised TypeError: .*'timeout_ms'"):
        await GuardedAdmin("my:Short", Short, {}, cluster()).create_topics(TOPICS, timeout_ms=20)


async def test_a_cluster_error_is_passed_through() -> None:
    with pytest.raises(Unreachable, match="nobody is there"):
        await admin("is away").create_topics(TOPICS)


async def test_a_class_that_cannot_be_created() -> None:
    with pytest.raises(
        UserAdminFailed, match=r"^forwarding.admin.class my:Ours cannot be created or configured: KeyError"
    ):
        GuardedAdmin("my:Ours", Ours, {}, cluster())


async def test_a_class_without_configure() -> None:
    assert isinstance(GuardedAdmin("my:Plain", ClusterAdmin, {}, cluster()), ClusterAdmin)
