"""An admin of a user's own: whatever it does comes out as an answer, or as a ClusterError with its name."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from mm2.core.acls import Acl, Operation
from mm2.core.client_settings import ClientSettings
from mm2.core.topic_configs import SetConfig
from mm2.kafka.admin import ClusterAdmin, Refusals
from mm2.kafka.cluster import Cluster
from mm2.kafka.error_codes import ErrorCode
from mm2.kafka.errors import BrokerError, Unreachable
from mm2.kafka.own_admin import OwnAdmin, OwnAdminFailed
from mm2.kafka.topics import NewTopic

REFUSED = BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "create topic b")
TOPICS = [NewTopic(name=name, partitions=1, replication_factor=1) for name in "ab"]
CHANGE = SetConfig(name="retention.ms", value="1", before=None)
ACL = Acl(name="a", principal="User:alice", operation=Operation.READ)


def cluster() -> Cluster:
    return Cluster(ClientSettings(alias="B", bootstrap_servers=("localhost:1",), client_id="test"))


class Ours(ClusterAdmin):
    """Does what its properties say."""

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


def admin(does: str = "works") -> OwnAdmin:
    return OwnAdmin("my:Ours", Ours, {"does": does}, cluster())


async def test_answers_are_handed_on() -> None:
    assert await admin().create_topics(TOPICS) == {"a": None, "b": REFUSED}
    assert await admin().create_partitions({"a": 7}, timeout_ms=7) == {"a": None}
    assert await admin().alter_topic_configs({"a": [CHANGE]}, timeout_ms=7) == {"a": None}
    assert await admin().create_acls([ACL]) == {ACL: None}


@pytest.mark.parametrize(
    ("does", "sentence"),
    [
        ("sleeps", "create_topics did not answer within 20 ms"),
        ("raises", "create_topics raised RuntimeError: no quota (test_own_admin.py:"),
        ("says nothing", "create_topics answered a NoneType, not a dict"),
        ("forgets", "create_topics must answer None or a BrokerError for b"),
        ("invents", "create_topics must answer None or a BrokerError for b"),
    ],
)
async def test_anything_else_is_an_error_that_may_pass(does: str, sentence: str) -> None:
    with pytest.raises(OwnAdminFailed) as caught:
        await admin(does).create_topics(TOPICS, timeout_ms=20)
    assert str(caught.value).startswith(f"forwarding.admin.class my:Ours: {sentence}")
    assert caught.value.retriable


async def test_a_method_that_takes_other_arguments_is_such_an_error_too() -> None:
    class Short(ClusterAdmin):
        async def create_topics(self, topics: Sequence[NewTopic]) -> Refusals:  # type: ignore[override]
            return {}

    with pytest.raises(OwnAdminFailed, match=r"create_topics raised TypeError: .*'timeout_ms'"):
        await OwnAdmin("my:Short", Short, {}, cluster()).create_topics(TOPICS, timeout_ms=20)


async def test_a_cluster_error_stays_what_it_is() -> None:
    with pytest.raises(Unreachable, match="nobody is there"):
        await admin("is away").create_topics(TOPICS)


async def test_one_that_cannot_be_made() -> None:
    with pytest.raises(OwnAdminFailed, match=r"^forwarding.admin.class my:Ours cannot be made or configured: KeyError"):
        OwnAdmin("my:Ours", Ours, {}, cluster())


async def test_one_that_needs_no_properties() -> None:
    assert isinstance(OwnAdmin("my:Plain", ClusterAdmin, {}, cluster()), ClusterAdmin)
