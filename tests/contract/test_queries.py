"""``GET /flows/{source}/{target}/queries``: what other programs rely on."""

from __future__ import annotations

from dataclasses import replace

import httpx

from mm2.core.coordination.query_history_records import QueriesUnreadableError, QueryHistories
from mm2.core.naming.names import Flow
from mm2.rest.app import rest_app
from mm2.rest.internal.peers import Peers
from tests.contract.nodes import PLAIN, rest_context, rest_nodes
from tests.contract.samples import MASK

ORDERS = {
    "topic": "orders",
    "partition": 0,
    "topic_id": "00000000-0000-0000-0000-000000000007",
    "queries": [
        {"offset": 42, "sha256": MASK.sha256, "query": MASK.text, "at": 1_763_740_800_000},
        {"offset": 90, "sha256": None, "query": None, "at": 1_763_740_900_000},
        {"offset": 120, "sha256": "cd" * 32, "query": None, "at": 1_763_741_000_000},
    ],
}
USERS = {
    "topic": "users",
    "partition": 3,
    "topic_id": None,
    "queries": [{"offset": 0, "sha256": MASK.sha256, "query": MASK.text, "at": 5}],
}


async def test_response_fields() -> None:
    async with rest_nodes(["one"]) as (one,), httpx.AsyncClient(base_url=one.server.url) as client:
        answer = await client.get("/flows/A/B/queries")
        assert (answer.status_code, answer.json()) == (200, {"flow": "A->B", "partitions": [ORDERS, USERS]})
        answer = await client.get("/flows/A/B/queries", params={"topic": "users"})
        assert (answer.status_code, answer.json()) == (200, {"flow": "A->B", "partitions": [USERS]})
        answer = await client.get("/flows/A/B/queries", params={"topic": "payments"})
        assert (answer.status_code, answer.json()) == (200, {"flow": "A->B", "partitions": []})
        answer = await client.get("/flows/A/C/queries")
        assert (answer.status_code, answer.json()) == (404, {"detail": "no flow A->C on this node; its flows: A->B"})


async def test_while_the_target_is_not_connected() -> None:
    def not_connected(flow: Flow) -> QueryHistories:
        raise QueriesUnreadableError(f"cannot read the queries of {flow}: no broker answered")

    peers = Peers(PLAIN)
    app = rest_app(replace(rest_context(peers), query_histories=not_connected))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://node") as client:
        answer = await client.get("/flows/A/B/queries")
        assert (answer.status_code, answer.json()) == (
            503,
            {"detail": "cannot read the queries of A->B: no broker answered"},
        )
    await peers.close()
