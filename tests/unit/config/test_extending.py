"""The examples of docs/how-to/extending.md work as described."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from aiokafka.protocol.admin import CreateTopicsRequest

from mm2.config.load import load
from mm2.config.settings import FlowSettings
from mm2.core.settings.client import ClientSettings
from mm2.core.settings.oauth import OAuthLogin, TokenPlugin
from mm2.kafka.admin.topics import NewTopic
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.sasl.oauthbearer import source_of
from tests.lab.docs import write_blocks

PAGE = Path(__file__).parents[3] / "docs/how-to/extending.md"
MODULES = ("acme_naming", "acme_filters", "acme_admin", "msk_iam")


@pytest.fixture
def described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FlowSettings]:
    """Return the flow A->B of the page's configuration file."""
    files = write_blocks(PAGE, tmp_path)
    assert set(files) == {"mm2.properties", "msk.properties", *(f"{module}.py" for module in MODULES)}
    (tmp_path / "topics.txt").write_text("orders\nusers\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for module in MODULES:  # another test of this process can have imported modules of these names
        monkeypatch.delitem(sys.modules, module, raising=False)
    loaded = load(Path("mm2.properties"))
    assert loaded.problems == ()
    assert loaded.settings is not None
    yield loaded.settings.flows[0]
    for module in MODULES:
        sys.modules.pop(module, None)


def test_the_policy(described: FlowSettings) -> None:
    policy = described.policy
    assert policy.format_remote_topic("A", "orders") == "orders.copied-from.A"
    assert policy.topic_source("orders.copied-from.A") == "A"
    assert policy.topic_source("orders") is None
    assert policy.upstream_topic("orders") is None
    assert policy.original_topic("orders.copied-from.A.copied-from.B") == "orders"
    assert policy.is_heartbeats_topic("heartbeats.copied-from.A")
    assert policy.checkpoints_topic("A") == "A.checkpoints.internal"


def test_the_filters(described: FlowSettings) -> None:
    assert [described.topic_filter(topic) for topic in ("orders", "users", "logs")] == [True, True, False]
    assert [described.group_filter(group) for group in ("svc-mail", "console-consumer-7")] == [True, False]
    names = ("retention.ms", "cleanup.policy", "max.message.bytes")
    assert [described.config_property_filter(name) for name in names] == [True, True, False]


class Controller(Cluster):
    """A client that keeps its requests to create topics, and whose controller accepts them."""

    def __init__(self) -> None:
        super().__init__(ClientSettings(alias="B", bootstrap_servers=("localhost:1",), client_id="test"))
        self.asked: list[CreateTopicsRequest] = []

    async def controller(self) -> int:
        return 1

    async def send(self, node_id: int, request: Any, **_: Any) -> Any:
        self.asked.append(request)
        return SimpleNamespace(topic_errors=[("A.orders", 0, None)])


async def test_the_admin(described: FlowSettings) -> None:
    cluster = Controller()
    admin = described.admin_class(cluster)
    new = NewTopic(name="A.orders", partitions=1, replication_factor=1, configs={"cleanup.policy": "delete"})
    assert await admin.create_topics([new]) == {"A.orders": None}
    ((*_, configs),) = (row for request in cluster.asked for row in request.create_topic_requests)
    assert dict(configs) == {"cleanup.policy": "delete", "min.insync.replicas": "1"}


def test_tokens_of_amazon_msk(described: FlowSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library of AWS is not installed here: its two functions answer as its documentation says."""
    signer = ModuleType("aws_msk_iam_sasl_signer")
    vars(signer)["MSKAuthTokenProvider"] = SimpleNamespace(
        generate_auth_token=lambda region: (f"token-of-{region}", 4_000_000_000_000),
        generate_auth_token_from_role_arn=lambda region, role: (f"{role}-in-{region}", 4_000_000_000_000),
    )
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", signer)
    loaded = load(Path("msk.properties"))
    assert loaded.problems == ()
    assert loaded.settings is not None
    login = loaded.settings.flows[0].clients.source_consumer.sasl
    assert isinstance(login, OAuthLogin)
    token = source_of(login).token()
    assert (token.value, token.expires_at) == ("token-of-eu-central-1", 4_000_000_000)
    assert isinstance(login.source, TokenPlugin)
    role = replace(login.source, options=(("region", "eu"), ("role", "arn")))
    assert source_of(replace(login, source=role)).token().value == "arn-in-eu"
