from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mm2.client import AsyncPositionClient, ConfigInvalid, Position, PositionClient, PositionsUnreadableError
from mm2.config.load import load
from mm2.config.settings import FlowSettings
from mm2.kafka.errors import ClusterError
from mm2.node.checkpoint.position_service import PositionService

FILE = """clusters = A, B
A.bootstrap.servers = 127.0.0.1:1
B.bootstrap.servers = 127.0.0.1:1
A->B.enabled = true
"""
ORDERS = [Position("orders", 0, 5)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "mm2.properties"
    file.write_text(FILE)
    return file


@pytest.fixture
def settings(file: Path) -> FlowSettings:
    loaded = load(file).settings
    assert loaded is not None
    return loaded.flows[0]


async def test_an_unreachable_target_is_an_error_for_all_who_ask(settings: FlowSettings) -> None:
    service = PositionService(settings)
    answers = await asyncio.gather(
        *(service.translate(ORDERS, reverse=False) for _ in range(3)), return_exceptions=True
    )
    for answer in answers:
        assert isinstance(answer, PositionsUnreadableError)
        assert not answer.is_unknown
        assert str(answer).startswith("cannot translate positions of A->B on this node: cluster B: ")
        assert isinstance(answer.__cause__, ClusterError)
    assert not service.is_open
    await service.close()


async def test_a_client_does_not_wait_longer_than_its_limit(settings: FlowSettings) -> None:
    service = PositionService(settings, answer_s=0.0)
    with pytest.raises(PositionsUnreadableError, match="could not be read within 0 s; it is read further, so ask"):
        await service.translate(ORDERS, reverse=False)
    await service.close()


async def test_an_idle_service_releases_its_memory(settings: FlowSettings) -> None:
    """What was read last is not kept for those who ask later, and a service can be used again."""
    service = PositionService(settings, idle_s=0.0)
    for _ in range(2):
        with pytest.raises(PositionsUnreadableError, match="cluster B: "):
            await service.translate(ORDERS, reverse=False)
        await service.close()
        assert not service.is_open


async def test_client_errors(file: Path) -> None:
    async with AsyncPositionClient(file, "A->B") as client:
        with pytest.raises(PositionsUnreadableError):
            await client.translate(ORDERS)
    with pytest.raises(ConfigInvalid, match=r"no flow A->C \(fix: use one of its flows: A->B"):
        AsyncPositionClient(file, "A->C")
    with pytest.raises(RuntimeError, match="async with"):
        await AsyncPositionClient(file, "A -> B").translate(ORDERS)


def test_a_file_with_errors(file: Path) -> None:
    file.write_text(FILE + "tasks.max = 0\n")
    with pytest.raises(ConfigInvalid, match=r":5: error: tasks.max = 0: "):
        PositionClient(file, "A->B")


def test_synchronous_client(file: Path) -> None:
    with PositionClient(file, "A->B") as client, pytest.raises(PositionsUnreadableError):
        client.translate(ORDERS, reverse=True)
