"""Lane endpoints over HTTPS: unauthorized requests get no lease and cannot make the node read large bodies."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from flows.lane.lease_client import MAX_QUESTIONS, TOO_LARGE_TO_ASK, LeaseClient, LeaseLostError
from mm2.core.lanes.engine_orders import EngineReport, EngineRole, RecordError
from mm2.core.lanes.lease import (
    MAX_FAILED_RECORD_BYTES,
    LaneOrders,
    LaneQuery,
    LeaseEndpoint,
    LeaseRenewal,
    SourceTaskLease,
)
from mm2.core.lanes.progress_reports import LaneProgress
from mm2.core.lanes.query_trials import DEATHS, FrameSpan
from mm2.core.naming.names import Flow
from mm2.core.settings.client import SecurityProtocol
from mm2.core.settings.oauth import OAuthLogin, TokenFile
from mm2.core.settings.row_query import RowTransform
from mm2.kafka.errors import RequestTimedOut, Unreachable
from mm2.kafka.sasl import credential_files
from mm2.node.engine.lane_board import LaneBoard
from mm2.node.engine.lease_service import LEASE_MARGIN_S, NOT_FAILED_AGAIN, LeaseService
from mm2.rest.internal.lease_api import LARGEST_REQUEST, lane_router
from mm2.rest.server.lane_identity import LaneIdentity, issue_lane_identity
from mm2.rest.server.listeners import Advertised, lease_place
from mm2.rest.server.server import RestServer
from tests.contract.certificates import caller_context, https_file
from tests.lab.listeners import Authority
from tests.lab.ports import HOST
from tests.unit.node.engine.lane_boards import CLIENT, FLOW, source_task_lease

PROGRESS = json.dumps({"version": 0, "pid": 1})


async def _prepared(_: int) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Host:
    """A flow that gives lanes these leases of its source tasks."""

    lease: Callable[[int], SourceTaskLease | None]
    prepare: Callable[[int], Awaitable[None]] = _prepared
    certain_s: float = 10.0
    share: int | None = None

    async def prepare_lease(self, source_task: int) -> None:
        await self.prepare(source_task)

    def hand_out_lease(self, source_task: int) -> SourceTaskLease | None:
        return self.lease(source_task)

    def certain_for(self) -> float:
        return self.certain_s

    def fetch_share(self, _: int) -> int | None:
        return self.share


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneServer:
    """The lane board of a node served over HTTPS with one configured lane, and a client that trusts the node."""

    board: LaneBoard
    service: LeaseService
    lease_address: LeaseEndpoint
    client: httpx.AsyncClient

    def lease(self, token: str, *, lane: int = 0) -> LeaseClient:
        return LeaseClient(self.lease_address, lane=lane, token=token)

    def sql_lease(self, query: LaneQuery, flow: Flow = FLOW) -> LeaseClient:
        """Return the client of a SQL lane with a source task."""
        one = replace(source_task_lease(0), query=query, flow=flow)
        self.service.register(flow, Host(lambda _: one))
        self.board.put(one)
        (start,) = (one for one in self.board.engine_orders(0.0, EngineRole.QUERIES).lanes if one.query == query)
        return self.lease(start.token, lane=start.lane)


def new_board(**options: Any) -> LaneBoard:
    secrets = iter(("token", "session", "more", "other", "further", "last"))
    return LaneBoard(lanes=1, buffer_bytes=1 << 20, new_secret=secrets.__next__, **options)


@pytest.fixture
async def lane_server(tmp_path: Path) -> AsyncIterator[LaneServer]:
    async with serving(LeaseService(new_board(), capacity=1), tmp_path) as server:
        yield server


@asynccontextmanager
async def serving(service: LeaseService, tmp_path: Path) -> AsyncIterator[LaneServer]:
    app, authority = FastAPI(openapi_url=None), Authority()
    app.include_router(lane_router(service))
    tls = https_file(authority, tmp_path, trust=False).listening.tls
    server = RestServer(app, HOST, tls=tls)
    await server.start()
    lease_address = lease_place([server.listener], Advertised(), tls, None, own_host=HOST)
    async with httpx.AsyncClient(timeout=30, base_url=server.url, verify=caller_context(authority)) as client:
        yield LaneServer(board=service.board, service=service, lease_address=lease_address, client=client)
    await server.stop()


async def test_lane_trusts_the_certificate_of_the_node(lane_server: LaneServer) -> None:
    """The lane has no authority that issued the certificate."""
    assert lane_server.lease_address.url.startswith("https:")
    async with lane_server.lease("token") as lease:
        assert (await lease.acquire()).end
        assert isinstance(await lease.report(LaneProgress(version=99, pid=1)), LaneOrders)


async def test_lane_has_a_certificate_for_a_listener_that_requires_one(tmp_path: Path) -> None:
    board = LaneBoard(lanes=1, buffer_bytes=1 << 20, new_secret=iter(("token", "session")).__next__)
    app, lanes = FastAPI(openapi_url=None), issue_lane_identity()
    app.include_router(lane_router(LeaseService(board, capacity=1)))
    required = https_file(Authority(), tmp_path, {"listeners.https.ssl.client.auth": "required"}).listening.tls
    assert required is not None
    server = RestServer(app, HOST, tls=replace(required, lanes_pem=lanes.certificate_pem))
    await server.start()
    place = lease_place([server.listener], Advertised(), required, lanes, own_host=HOST)
    try:
        async with LeaseClient(place, lane=0, token="token") as lease:
            assert (await lease.acquire()).end
        for other in (replace(place, certificate_pem=None, key_pem=None), _with_identity(place, issue_lane_identity())):
            async with LeaseClient(other, lane=0, token="token") as lease:
                lease._deadline.renew(0.0, 0.0)
                with pytest.raises(LeaseLostError, match=r"no answer"):
                    await lease.acquire()
    finally:
        await server.stop()


def _with_identity(place: LeaseEndpoint, lanes: LaneIdentity) -> LeaseEndpoint:
    return replace(place, certificate_pem=lanes.certificate_pem, key_pem=lanes.key_pem)


async def test_lane_sends_nothing_to_an_untrusted_server(lane_server: LaneServer) -> None:
    stranger = LeaseEndpoint(url=lane_server.lease_address.url, ca_pem=Authority().ca_pem)
    async with LeaseClient(stranger, lane=0, token="token", first_grant_within_s=0.1) as lease:
        with pytest.raises(LeaseLostError, match="CERTIFICATE_VERIFY_FAILED"):
            await lease.acquire()


@pytest.mark.parametrize("authorization", ["", "Bearer guess", "guess"])
async def test_progress_without_the_session_secret_is_rejected(lane_server: LaneServer, authorization: str) -> None:
    headers = {"Authorization": authorization} if authorization else {}
    answer = await lane_server.client.post("/internal/lanes/0/progress", content=PROGRESS, headers=headers)
    assert answer.status_code == httpx.codes.GONE


async def test_wrong_token_gets_no_lease(lane_server: LaneServer) -> None:
    async with lane_server.lease("guess") as lease:
        with pytest.raises(LeaseLostError, match="the token is not that of the current run"):
            await lease.acquire()


async def test_lane_repeats_its_request_until_its_offsets_can_be_read(lane_server: LaneServer) -> None:
    """Or until an earlier run of the lane is fenced."""
    errors = [RequestTimedOut("not fenced yet"), Unreachable("no broker")]

    async def prepare(_: int) -> None:
        if errors:
            raise errors.pop()

    lane_server.service.register(FLOW, Host(source_task_lease, prepare))
    lane_server.board.put(source_task_lease(0))
    async with lane_server.lease("token") as lease:
        assert (await lease.acquire()).source_tasks == (source_task_lease(0),)
    assert not errors


async def test_a_lease_is_built_after_everything_was_read(lane_server: LaneServer) -> None:
    """What changed while another source task was prepared counts."""
    drained = replace(source_task_lease(0), drain=True)
    newest = {0: source_task_lease(0), 1: source_task_lease(1)}

    async def prepare(source_task: int) -> None:
        if source_task == 1:
            await asyncio.sleep(0.1)
            newest[0] = drained
            lane_server.board.put(drained)

    lane_server.service.register(FLOW, Host(newest.get, prepare))
    for one in newest.values():
        lane_server.board.put(one)
    async with lane_server.lease("token") as lease:
        assert (await lease.acquire()).source_tasks == (drained, source_task_lease(1))


async def test_invalid_requests_are_rejected_without_echoing_them(lane_server: LaneServer) -> None:
    answer = await lane_server.client.put("/internal/lanes/0/lease", content='{"token": "sesame"}')
    assert answer.status_code == httpx.codes.UNPROCESSABLE_ENTITY
    assert "sesame" not in answer.text
    answer = await lane_server.client.put("/internal/lanes/0/lease", content=b" " * (LARGEST_REQUEST + 1))
    assert answer.status_code == httpx.codes.REQUEST_ENTITY_TOO_LARGE


async def test_lane_ends_with_the_reason_if_the_node_rejects_its_request(lane_server: LaneServer) -> None:
    async with lane_server.lease("t" * LARGEST_REQUEST) as lease:
        with pytest.raises(LeaseLostError, match=r"rejected a request: .*more than"):
            await lease.acquire()


async def test_engine_endpoint_is_not_served_on_public_listeners(lane_server: LaneServer) -> None:
    assert (await lane_server.client.post("/internal/engine", content="{}")).status_code == httpx.codes.NOT_FOUND


class Late(LeaseService):
    """Answers reports of progress after the lease has ended."""

    async def progress(self, lane: int, secret: str, progress: LaneProgress, wait: float) -> LeaseRenewal:
        await asyncio.sleep(self.board.lease_s)
        return await super().progress(lane, secret, progress, 0.0)


async def test_lane_ends_when_the_node_does_not_answer_in_time(tmp_path: Path) -> None:
    """The time counts from the request that was answered last, also during a call."""
    service = Late(new_board(lease_s=LEASE_MARGIN_S + 1.0), capacity=1)
    async with serving(service, tmp_path) as server, server.lease("token") as lease:
        await lease.acquire()
        with pytest.raises(LeaseLostError, match="no answer from the node"):
            await lease.report(LaneProgress(version=99, pid=1))


async def test_leases_of_flows_end_before_the_membership_of_the_node(lane_server: LaneServer) -> None:
    lane_server.service.register(FLOW, Host(lambda _: None, certain_s=8.0))
    lane_server.board.put(source_task_lease(0))
    async with lane_server.lease("token") as lease:
        await lease.acquire()
        assert not lease.deadlines[FLOW].valid, "the flow does not run the source task any more"
        lane_server.board.put(source_task_lease(0))
        await lease.report(LaneProgress(version=-1, pid=1))
        assert 0 < lease.deadlines[FLOW].remaining <= 8.0 - LEASE_MARGIN_S


async def test_the_share_of_a_limit_reaches_the_lane_with_the_renewal_and_ends_with_it(lane_server: LaneServer) -> None:
    """Without new orders: the source task continues to copy."""
    one = source_task_lease(0)
    lane_server.service.register(FLOW, Host(lambda _: one, share=250_000))
    lane_server.board.put(one)
    async with lane_server.lease("token") as lease:
        await lease.acquire()
        limit = lease.limits[FLOW, 0]
        assert limit.rate == 250_000, "known before anything is fetched"
        version = lease.orders.version
        for share in (500_000, None, 125_000):
            lane_server.service.register(FLOW, Host(lambda _: one, share=share))
            await lease.report(LaneProgress(version=-1, pid=1))
            assert limit.rate == share
        assert (lease.orders.version, lease.limits[FLOW, 0]) == (version, limit)


QUERY = LaneQuery(name="mask", action=RowTransform(module="shop", function="mask"))
OTHER_QUERY = LaneQuery(name="keys", action=RowTransform(module="shop", function="keys"))


async def test_replaced_credentials_arrive_in_a_lane_with_the_same_leases(lane_server: LaneServer) -> None:
    """The lane is on another machine, without the file."""
    file = "/run/mm2/token of the node"
    login = OAuthLogin(source=TokenFile(file=file))
    client = replace(CLIENT, security_protocol=SecurityProtocol.SASL_SSL, sasl=login)
    one = replace(source_task_lease(0), source=client)
    service = LeaseService(
        LaneBoard(lanes=1, buffer_bytes=1 << 20, new_secret=lambda: "token", cluster="spark://host:7077"), capacity=1
    )
    service.register(FLOW, Host(lambda _: one))
    service.use_credentials({file: base64.b64encode(b"first").decode()})
    service.put(one)
    app = FastAPI(openapi_url=None)
    app.include_router(lane_router(service))
    server = RestServer(app)
    await server.start()
    service.board.engine_orders(0.0)
    async with LeaseClient(LeaseEndpoint(url=server.url), lane=0, token="token") as lease:
        orders = await lease.acquire()
        assert credential_files.read(file) == b"first"
        service.use_credentials({file: base64.b64encode(b"second").decode(), "/etc/of/others": "eA=="})
        assert (await lease.report(LaneProgress(version=orders.version, pid=1))).source_tasks == orders.source_tasks
        assert credential_files.read(file) == b"second"
        assert not credential_files.is_delivered("/etc/of/others")
    credential_files.deliver({})
    await server.stop()


async def test_sparks_message_for_a_failed_record(lane_server: LaneServer) -> None:
    """The engine gets the record with the query of the lane, and the lane gets the engine's answer."""
    engine = lane_server.service.engine
    async with lane_server.sql_lease(QUERY) as lease:
        await lease.acquire()
        version = lane_server.board.engine_orders(0.0, EngineRole.QUERIES).version
        report = EngineReport(version=version, pid=1, jvm_pid=None, spark_ui=None)
        polling = asyncio.create_task(engine(EngineRole.QUERIES, report, 30.0))
        asking = asyncio.create_task(lease.failure_of("orders", 3, b"batch"))
        (record,) = (await polling).failed_records
        assert (record.query, record.topic, record.partition) == (QUERY, "orders", 3)
        assert base64.b64decode(record.batch) == b"batch"
        error = RecordError(number=record.number, message="[CAST_INVALID_INPUT] …")
        assert (await engine(EngineRole.QUERIES, replace(report, record_errors=(error,)), 0.0)).failed_records == ()
        assert await asking == "[CAST_INVALID_INPUT] …"


async def test_a_record_for_which_the_query_does_not_fail_again(lane_server: LaneServer) -> None:
    async with lane_server.sql_lease(QUERY) as lease:
        await lease.acquire()
        version = lane_server.board.engine_orders(0.0, EngineRole.QUERIES).version
        report = EngineReport(version=version, pid=1, jvm_pid=None, spark_ui=None)
        engine = lane_server.service.engine
        polling = asyncio.create_task(engine(EngineRole.QUERIES, report, 30.0))
        asking = asyncio.create_task(lease.failure_of("orders", 3, b"batch"))
        (record,) = (await polling).failed_records
        error = RecordError(number=record.number, message=None)
        await engine(EngineRole.QUERIES, replace(report, record_errors=(error,)), 0.0)
        assert await asking == NOT_FAILED_AGAIN


async def test_no_message_for_a_failed_record(tmp_path: Path) -> None:
    async with serving(LeaseService(new_board(), capacity=1, message_within_s=0.1), tmp_path) as server:
        async with server.lease("token") as lease:
            await lease.acquire()
            assert await lease.failure_of("orders", 3, b"batch") is None, "the lane has no query"
        async with server.sql_lease(QUERY) as lease:
            await lease.acquire()
            assert await lease.failure_of("orders", 3, bytes(MAX_FAILED_RECORD_BYTES + 1)) == TOO_LARGE_TO_ASK
            assert await lease.failure_of("orders", 3, b"batch") is None, "the engine does not answer"
        answer = await server.client.post("/internal/lanes/0/failed-record", content=b"{}")
        assert answer.status_code == httpx.codes.GONE


class SlowEngine(LeaseService):
    """Answers questions about failed records only after ``answer`` is set."""

    def __init__(self, board: LaneBoard) -> None:
        super().__init__(board, capacity=1)
        self.asked, self.most = 0, 0
        self.enough, self.answer = asyncio.Event(), asyncio.Event()

    async def failed_record(self, lane: int, topic: str, partition: int, batch: str) -> str | None:
        self.asked += 1
        self.most = max(self.most, self.asked)
        if self.asked == MAX_QUESTIONS:
            self.enough.set()
        await self.answer.wait()
        self.asked -= 1
        return None


async def test_questions_about_failed_records_leave_connections_for_the_lease(tmp_path: Path) -> None:
    """One question for each partition of the lane; the engine is slow."""
    service = SlowEngine(new_board())
    async with serving(service, tmp_path) as server, server.sql_lease(QUERY) as lease:
        await lease.acquire()
        questions = [asyncio.create_task(lease.failure_of("orders", number, b"batch")) for number in range(150)]
        await asyncio.wait_for(service.enough.wait(), 30)
        await lease.report(LaneProgress(version=-1, pid=1))
        service.answer.set()
        assert await asyncio.gather(*questions) == [None] * 150
    assert service.most == MAX_QUESTIONS


async def test_announced_frames_take_turns(lane_server: LaneServer) -> None:
    one, other = (FrameSpan(topic="orders", partition=at, first=5, until=9, topic_id="id") for at in (0, 1))
    other_flow = Flow("C", "D")
    lane_server.board.put(replace(source_task_lease(0), query=QUERY))
    lane_server.board.put(replace(source_task_lease(0), query=OTHER_QUERY, flow=other_flow))
    for _ in range(DEATHS):
        lane_server.board.engine_lost(time.monotonic(), "Java ran out of memory", EngineRole.QUERIES)
    async with lane_server.sql_lease(QUERY) as first:
        await first.acquire()
        async with lane_server.sql_lease(OTHER_QUERY, other_flow) as second:
            await second.acquire()
            await first.announce(one)
            waiting = asyncio.create_task(second.announce(other))
            done, _ = await asyncio.wait([waiting], timeout=1.5)
            assert not done, "longer than one request waits"
            await first.announce(None)
            await waiting
            await second.announce(None)
            await first.announce(one)
    answer = await lane_server.client.post("/internal/lanes/0/frame", content=b"null")
    assert answer.status_code == httpx.codes.GONE
