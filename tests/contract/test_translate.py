"""``POST /flows/{source}/{target}/translate``: what other programs rely on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256

import httpx
from pydantic import TypeAdapter

from mm2.core.access.callers import NamedToken, Role
from mm2.core.naming.names import Flow
from mm2.core.positions.positions import Position, PositionAnswers, PositionsUnreadableError
from mm2.rest.access.gate import AccessGate
from mm2.rest.app import rest_app
from mm2.rest.internal.peers import Peers
from mm2.rest.public.translate import LARGEST_REQUEST, MOST_POSITIONS, TranslateResponse
from tests.contract.nodes import PLAIN, rest_context, rest_nodes

PATH = "/flows/A/B/translate"
NOTES = ["cluster A is unreachable (timed out)"]


def asked(*positions: tuple[str, int, int]) -> list[dict[str, object]]:
    return [{"topic": topic, "partition": partition, "offset": offset} for topic, partition, offset in positions]


async def test_both_directions() -> None:
    async with rest_nodes(["one"]) as (one,), httpx.AsyncClient(base_url=one.server.url) as client:
        answer = await client.post(PATH, json={"positions": asked(("orders", 1, 100), ("users", 0, 5))})
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
        exact = {"precision": "exact", "reason": "", "read_again": 0, "missing": None}
        assert answer.json() == {
            "flow": "A->B",
            "positions": [
                {
                    "topic": "orders",
                    "partition": 1,
                    "offset": 100,
                    "remote_topic": "A.orders",
                    "remote_partition": 1,
                    "remote_offset": 120,
                    **exact,
                },
                {
                    "topic": "users",
                    "partition": 0,
                    "offset": 5,
                    "remote_topic": "A.users",
                    "remote_partition": 0,
                    "remote_offset": 25,
                    **exact,
                },
            ],
            "notes": NOTES,
        }
        schema = TypeAdapter(TranslateResponse)
        assert schema.dump_python(schema.validate_python(answer.json()), mode="json") == answer.json()
        answer = await client.post(PATH, json={"positions": asked(("A.orders", 1, 5)), "reverse": True})
        assert answer.json()["positions"] == [
            {
                "remote_topic": "A.orders",
                "remote_partition": 1,
                "remote_offset": 5,
                "source_topic": "orders",
                "source_partition": 1,
                "source_offset": None,
                "precision": "conservative",
                "reason": "too old",
                "read_again": None,
                "missing": None,
            }
        ]
        assert schema.validate_python(answer.json()).positions[0].read_again is None


REJECTED: tuple[tuple[str, dict[str, object], int, str], ...] = (
    (
        "/flows/A/C/translate",
        {"positions": asked(("orders", 0, 1))},
        404,
        "no flow A->C on this node; its flows: A->B",
    ),
    (
        PATH,
        {"positions": asked(("orders", 0, 1), ("hidden", 0, 1))},
        404,
        "A->B does not copy topic hidden: not selected (fix: use the name on the source)",
    ),
    (
        PATH,
        {"positions": []},
        422,
        "invalid body: positions: Tuple should have at least 1 item after validation, not 0; send {",
    ),
    (PATH, {"positions": asked(("orders", -1, 0))}, 422, "invalid body: positions.0.partition: Input should be"),
    (PATH, {"positions": 5}, 422, "invalid body: positions: "),
    (
        PATH,
        {"positions": asked(("orders", 0, -2))},
        422,
        "positions.0.offset: Input should be greater than or equal",
    ),
    (PATH, {"positions": asked(("orders", 0, 2**63))}, 422, "positions.0.offset: Input should be less than"),
    (PATH, {"positions": asked(("", 0, 0))}, 422, "positions.0.topic: String should have at least 1"),
    (PATH, {}, 422, "invalid body: positions: Field required"),
    (
        PATH,
        {"positions": asked(("orders", 0, 1)) * (MOST_POSITIONS + 1)},
        422,
        "invalid body: positions: Tuple should have at most 10000 items",
    ),
    (PATH, {"positions": asked(("x" * (LARGEST_REQUEST + 1), 0, 1))}, 413, "the body has more than"),
)


async def test_rejected_requests() -> None:
    async with rest_nodes(["one"]) as (one,), httpx.AsyncClient(base_url=one.server.url) as client:
        for path, body, status, detail in REJECTED:
            answer = await client.post(path, json=body)
            assert (answer.status_code, detail in answer.json()["detail"]) == (status, True), answer.text


async def test_a_viewer_may_ask() -> None:
    token = NamedToken(name="ann", role=Role.VIEWER, sha256=sha256(b"secret").hexdigest())
    gate = AccessGate(enabled=False, token=None, tokens=(token,), read_needs_token=True)
    body = {"positions": asked(("orders", 0, 1))}
    async with rest_nodes(["one"], gate=gate) as (one,), httpx.AsyncClient(base_url=one.server.url) as client:
        assert (await client.post(PATH, json=body)).status_code == 401
        answer = await client.post(PATH, json=body, headers={"Authorization": "Bearer secret"})
        assert answer.status_code == 200


async def test_while_the_target_does_not_answer() -> None:
    async def away(flow: Flow, positions: Sequence[Position], reverse: bool) -> PositionAnswers:
        raise PositionsUnreadableError(f"cannot translate positions of {flow} on this node: cluster B is unreachable")

    peers = Peers(PLAIN)
    app = rest_app(replace(rest_context(peers), translate=away))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://node") as client:
        answer = await client.post(PATH, json={"positions": asked(("orders", 0, 1))})
        assert (answer.status_code, answer.json()) == (
            503,
            {"detail": "cannot translate positions of A->B on this node: cluster B is unreachable"},
        )
    await peers.close()
