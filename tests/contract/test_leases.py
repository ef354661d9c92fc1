"""Lanes at the node's door, over real HTTPS: who has no right gets nothing, and cannot make the node read much."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from flows.lease import Lease, LeaseLostError
from mm2.core.lease import LaneOrders, LaneProgress, LeasePlace
from mm2.node.desk import Desk
from mm2.node.lanes import LaneBoard
from mm2.rest.leases import LARGEST_REQUEST, lane_router
from mm2.rest.listeners import Advertised, lease_place
from mm2.rest.server import RestServer
from tests.contract.certificates import caller_context, https_file
from tests.lab.listeners import Authority
from tests.lab.ports import HOST

PROGRESS = json.dumps({"version": 0, "pid": 1})


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """A node's board behind https, one lane of it ordered, and a client that trusts the node."""

    board: LaneBoard
    place: LeasePlace
    client: httpx.AsyncClient

    def lease(self, token: str, place: LeasePlace | None = None) -> Lease:
        return Lease(place or self.place, lane=0, token=token, attempt=0)


@pytest.fixture
async def door(tmp_path: Path) -> AsyncIterator[Door]:
    board = LaneBoard(lanes=1, buffer_bytes=1 << 20, new_secret=iter(("token", "session", "more")).__next__)
    app, authority = FastAPI(openapi_url=None), Authority()
    app.include_router(lane_router(Desk(board, capacity=1)))
    tls = https_file(authority, tmp_path, trust=False).listening.tls
    server = RestServer(app, HOST, tls=tls)
    await server.start()
    place = lease_place([server.listener], Advertised(), tls, own_host=HOST)
    async with httpx.AsyncClient(base_url=server.url, verify=caller_context(authority)) as client:
        yield Door(board=board, place=place, client=client)
    await server.stop()


async def test_a_lane_trusts_the_nodes_own_certificate(door: Door) -> None:
    """No authority is known here that could vouch for it."""
    assert door.place.url.startswith("https:")
    async with door.lease("token") as lease:
        assert (await lease.acquire()).end
        assert isinstance(await lease.report(LaneProgress(version=99, pid=1)), LaneOrders)


async def test_a_lane_tells_nothing_to_somebody_else(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flows.lease.CALL_TIMEOUT_S", 0.1)
    stranger = LeasePlace(url=door.place.url, ca_pem=Authority().ca_pem)
    async with door.lease("token", stranger) as lease:
        with pytest.raises(LeaseLostError, match="CERTIFICATE_VERIFY_FAILED"):
            await lease.acquire()


@pytest.mark.parametrize("authorization", ["", "Bearer guess", "guess"])
async def test_progress_without_the_session_is_refused(door: Door, authorization: str) -> None:
    headers = {"Authorization": authorization} if authorization else {}
    answer = await door.client.post("/internal/lanes/0/progress", content=PROGRESS, headers=headers)
    assert answer.status_code == httpx.codes.GONE


async def test_a_wrong_token_gets_no_lease(door: Door) -> None:
    async with door.lease("guess") as lease:
        with pytest.raises(LeaseLostError, match="another run has the lease"):
            await lease.acquire()


async def test_what_no_lane_says_is_refused_without_being_repeated(door: Door) -> None:
    answer = await door.client.put("/internal/lanes/0/lease", content='{"token": "sesame"}')
    assert answer.status_code == httpx.codes.UNPROCESSABLE_ENTITY
    assert "sesame" not in answer.text
    answer = await door.client.put("/internal/lanes/0/lease", content=b" " * (LARGEST_REQUEST + 1))
    assert answer.status_code == httpx.codes.REQUEST_ENTITY_TOO_LARGE


async def test_a_lane_of_another_version_ends_and_says_why(door: Door) -> None:
    async with door.lease("t" * LARGEST_REQUEST) as lease:
        with pytest.raises(LeaseLostError, match=r"refuses what it says: .*more than"):
            await lease.acquire()


async def test_the_engine_is_not_served_to_other_machines(door: Door) -> None:
    assert (await door.client.post("/internal/engine", content="{}")).status_code == httpx.codes.NOT_FOUND
