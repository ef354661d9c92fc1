"""Named tokens, roles, reading with a token, failed logins, and the order of audit records."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from mm2.core.access.audit import AuditOutcome
from mm2.core.access.callers import NamedToken, Role
from mm2.core.access.failed_logins import FailedLoginReport
from mm2.core.coordination.commands import Command
from mm2.core.naming.names import Flow
from mm2.node.commands.pause import Pause
from mm2.rest.access.gate import AccessGate
from mm2.rest.internal.peers import PeerRequest
from tests.contract.nodes import PLAIN, TOKEN, RestNode, rest_nodes
from tests.contract.test_status_command import mm2 as mm2_process

ALICE, BOB = "token-of-alice-0123456789", "token-of-bob-0123456789"


def named(name: str, role: Role, token: str) -> NamedToken:
    return NamedToken(name=name, role=role, sha256=hashlib.sha256(token.encode()).hexdigest())


TOKENS = (named("alice", Role.OPERATOR, ALICE), named("bob", Role.VIEWER, BOB))
ATTEMPTED, DONE, REJECTED, UNKNOWN = AuditOutcome


def bearer(token: str | None) -> dict[str, str]:
    return {} if token is None else {"Authorization": f"Bearer {token}"}


@asynccontextmanager
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(timeout=30, trust_env=False, verify=PLAIN) as opened:
        yield opened


def gate(*, read_needs_token: bool = False, reports: list[FailedLoginReport] | None = None) -> AccessGate:
    report = (lambda _: None) if reports is None else reports.append
    return AccessGate(enabled=True, token=TOKEN, tokens=TOKENS, read_needs_token=read_needs_token, report=report)


async def test_operators_command_and_viewers_do_not() -> None:
    async with rest_nodes(["one"], gate=gate()) as (node,), client() as http:
        node.stand(leads=True)
        url = f"{node.server.url}/flows/A/B/refresh"
        assert (await http.post(url, headers=bearer(ALICE))).status_code == 202
        assert (await http.post(url, headers=bearer(TOKEN))).status_code == 202
        rejected = await http.post(url, headers=bearer(BOB))
        assert (rejected.status_code, rejected.json()["detail"]) == (
            403,
            "bob is a viewer: commands need a token of an operator",
        )
        assert [one.caller.name for one in node.commands.origins] == ["alice", "admin"]
        assert all(one.caller.address == "127.0.0.1" for one in node.commands.origins)


async def test_tokens_are_replaced_while_the_node_runs() -> None:
    tokens = gate()
    async with rest_nodes(["one"], gate=tokens) as (node,), client() as http:
        node.stand(leads=True)
        url = f"{node.server.url}/flows/A/B/refresh"
        tokens.use([named("carol", Role.OPERATOR, "token-of-carol")])
        assert (await http.post(url, headers=bearer(ALICE))).status_code == 401
        assert (await http.post(url, headers=bearer("token-of-carol"))).status_code == 202
        assert (await http.post(url, headers=bearer(TOKEN))).status_code == 202, "that of the properties stays"


OPEN = ("/health", "/health/live", "/docs", "/openapi.json", "/")
READ = (
    "/flows",
    "/metrics",
    "/node?log=10",
    "/flows/A/B/groups",
    "/flows/A/B/losses",
    "/flows/A/B/queries",
    "/flows/A/B/partitions/orders/0",
)


async def test_reading_with_a_token() -> None:
    async with rest_nodes(["one", "two"], gate=gate(read_needs_token=True)) as (node, other), client() as http:
        node.stand(leads=True)
        other.stand(leader=node)
        for path in OPEN:
            assert (await http.get(f"{node.server.url}{path}")).status_code in (200, 307, 503), path
        for path in READ:
            rejected = await http.get(f"{node.server.url}{path}")
            assert (rejected.status_code, rejected.headers["WWW-Authenticate"]) == (401, 'Bearer realm="mm2"'), path
            assert "missing token" in rejected.json()["detail"]
            assert (await http.head(f"{node.server.url}{path}")).status_code == 401
            assert (await http.get(f"{node.server.url}{path}", headers=bearer("wrong"))).status_code == 401
            for token in (BOB, ALICE, TOKEN):
                assert (await http.get(f"{node.server.url}{path}", headers=bearer(token))).status_code == 200, path
        share = PeerRequest(method="GET", path=("mm2", "status"))
        assert await other.peers.ask(node.server.url, other.leader_context, share), "nodes sign, and need no token"


async def test_every_path_is_open_or_needs_a_token() -> None:
    """A new endpoint is one of the lists above."""
    async with rest_nodes(["one"], gate=gate(read_needs_token=True)) as (node,), client() as http:
        described = (await http.get(f"{node.server.url}/openapi.json")).json()["paths"]
        for path, methods in described.items():
            filled = path.format(source="A", target="B", topic="orders", partition=0, task="t")
            for method in methods:
                answer = await http.request(method, f"{node.server.url}{filled}")
                assert (answer.status_code == 401) is not path.startswith(("/health", "/docs")), (method, path)


async def test_reading_is_open_by_default() -> None:
    async with rest_nodes(["one"], gate=gate()) as (node,), client() as http:
        node.stand(leads=True)
        for path in (*READ, *OPEN):
            for token in (None, "wrong"):
                answer = await http.get(f"{node.server.url}{path}", headers=bearer(token))
                assert answer.status_code in (200, 307, 503), path


async def test_failed_logins_are_counted_and_reported() -> None:
    reports: list[FailedLoginReport] = []
    async with rest_nodes(["one"], gate=gate(read_needs_token=True, reports=reports)) as (node,), client() as http:
        node.stand(leads=True)
        url = f"{node.server.url}/flows/A/B/refresh"
        for token in ("wrong", "wrong", "wrong", None, BOB):
            await http.post(url, headers=bearer(token))
        await http.get(f"{node.server.url}/flows")
        text = (await http.get(f"{node.server.url}/metrics", headers=bearer(BOB))).text
        counts = {
            line.rpartition(" ")[0].partition('"')[2].rstrip('"}'): float(line.rpartition(" ")[2])
            for line in text.splitlines()
            if line.startswith("mm2_rest_failed_logins_total{")
        }
        assert counts == {"missing-token": 2, "wrong-token": 3, "role": 1, "unencrypted": 0}
        (first,) = reports
        assert (first.address, first.count) == ("127.0.0.1", 1)
        assert "wrong token" in first.detail
        assert first.detail != "wrong"
        assert node.audit.all == [], "who may not command has commanded nothing"
        assert node.commands.done == []


def rows(node: RestNode) -> list[tuple[str | None, AuditOutcome, int]]:
    """Return who, outcome, and how many commands were executed before, of each record."""
    return [(one.who, one.outcome, executed) for one, executed in zip(node.audit.all, node.audit.executed, strict=True)]


async def test_audit_comes_before_the_effect_and_names_the_operator_on_each_node() -> None:
    async with rest_nodes(["leader", "follower"], gate=gate()) as (leader, follower), client() as http:
        leader.stand(leads=True)
        follower.stand(leader=leader)
        answer = await http.post(
            f"{follower.server.url}/flows/A/B/pause",
            params={"reason": "CHG-1234: größe"},
            json={"topics": ["orders"]},
            headers=bearer(ALICE),
        )
        assert answer.status_code == 202
        assert leader.commands.done == [Pause(topics=("orders",))]
        assert rows(leader) == [("alice", ATTEMPTED, 0), ("alice", DONE, 1)]
        assert [one[:2] for one in rows(follower)] == [("alice", ATTEMPTED), ("alice", DONE)]
        everything = [*leader.audit.all, *follower.audit.all]
        assert len({one.id for one in everything}) == 1
        for one in everything:
            assert (one.what, one.flow, one.on) == ("pause", "A->B", {"topics": ("orders",)})
            assert (one.role, one.address, one.reason) == (Role.OPERATOR, "127.0.0.1", "CHG-1234: größe")
        assert {(one.node, one.via) for one in everything} == {("leader", "follower"), ("follower", None)}
        assert [one.detail for one in leader.audit.stored] == ["it is done"], "once, by the node that executed it"
        assert follower.audit.stored == []
        (origin,) = leader.commands.origins
        assert (origin.caller.name, origin.reason, origin.via) == ("alice", "CHG-1234: größe", "follower")


async def test_audit_of_rejected_commands() -> None:
    async with rest_nodes(["leader", "follower"], gate=gate()) as (leader, follower), client() as http:
        leader.stand(leads=True)
        follower.stand(leader=leader)
        secret = {"topics": ["secret"]}
        await http.post(f"{follower.server.url}/flows/A/B/pause", json=secret, headers=bearer(ALICE))
        assert rows(leader) == [("alice", ATTEMPTED, 0), ("alice", REJECTED, 0)]
        assert [one.outcome for one in follower.audit.all] == [ATTEMPTED, REJECTED]
        assert ([one.outcome for one in leader.audit.stored], follower.audit.stored) == ([REJECTED], [])
        follower.stand(leader=None)
        await http.post(f"{follower.server.url}/flows/A/B/pause", headers=bearer(ALICE))
        assert [one.outcome for one in follower.audit.stored] == [REJECTED], "there was no leader to write it"
        follower.stand(leader="http://127.0.0.1:1")
        await http.post(f"{follower.server.url}/flows/A/B/pause", headers=bearer(ALICE))
        assert follower.audit.stored[-1].outcome is UNKNOWN
        assert "is not reachable" in (follower.audit.stored[-1].detail or "")
        await http.post(f"{follower.server.url}/flows/A/C/pause", headers=bearer(ALICE))
        assert (follower.audit.all[-1].flow, follower.audit.all[-1].outcome) == ("A->C", REJECTED)


async def test_audit_of_a_command_that_failed_unexpectedly() -> None:
    async def carry_out(*_: object) -> str:
        raise RuntimeError("a defect")

    async with rest_nodes(["one"], gate=gate(), carry_out=carry_out) as (node,), client() as http:
        node.stand(leads=True)
        assert (await http.post(f"{node.server.url}/flows/A/B/refresh", headers=bearer(ALICE))).status_code == 500
        assert [(one.outcome, one.detail) for one in node.audit.stored] == [(UNKNOWN, "a defect")]


async def test_command_of_a_node_of_an_earlier_release() -> None:
    async with rest_nodes(["one"], gate=gate()) as (node,):
        node.stand(leads=True)
        request = PeerRequest(method="POST", path=("mm2", "commands"), body=b'{"command":"pause"}', token=TOKEN)
        await node.peers.ask(node.server.url, node.leader_context, request)
        assert node.commands.done == [Pause()]
        assert [one.who for one in node.audit.all] == ["unknown", "unknown"]


async def test_a_reason_has_a_limit() -> None:
    async with rest_nodes(["one"], gate=gate()) as (node,), client() as http:
        node.stand(leads=True)
        url = f"{node.server.url}/flows/A/B/refresh"
        long = await http.post(url, params={"reason": "x" * 501}, headers=bearer(ALICE))
        assert (long.status_code, long.json()) == (422, {"detail": "the reason has more than 500 characters"})
        assert node.audit.all == []
        assert (await http.post(url, params={"reason": ""}, headers=bearer(ALICE))).status_code == 202
        assert node.audit.all[0].reason is None


async def run(*args: str, token: str = "") -> tuple[int | None, str, str]:
    return await mm2_process(*args, environment={"MM2_TOKEN": token, "MM2_REST_ADMIN_TOKEN": ""})


async def test_commands_send_the_token_of_the_environment(tmp_path: Path) -> None:
    async with rest_nodes(["one"], gate=gate(read_needs_token=True)) as (node,):
        node.stand(leads=True)
        url = node.server.url
        code, _, err = await run("status", url)
        assert (code, "missing token" in err, "MM2_TOKEN is sent if set" in err) == (1, True, True)
        code, out, err = await run("status", url, "--json", token=BOB)
        assert (code, err, json.loads(out)[0]["flow"]) == (0, "", "A->B")
        code, _, err = await run("pause", url, "--flow", "A->B", token=BOB)
        assert (code, "bob is a viewer" in err) == (1, True)
        words = ("pause", url, "--flow", "A->B", "--reason", "night & day")
        assert (await run(*words, token=ALICE))[0] == 0
        assert [(one.caller.name, one.reason) for one in node.commands.origins] == [("alice", "night & day")]
        file = tmp_path / "mm2.properties"
        file.write_text(
            f"listeners = {url}\nmm2.rest.read = token\nmm2.rest.admin = true\nmm2.rest.admin.token = {TOKEN}\n"
        )
        assert (await run("status", str(file), "--json"))[0] == 0, "with the token of the file"
        assert (await run("refresh", str(file), "--flow", "A->B", token=ALICE))[0] == 0
        assert node.commands.origins[-1].caller.name == "alice", "the own token, rather than that of the file"
        code, _, err = await run("refresh", url, "--flow", "A->B", "--reason", "x" * 501, token=ALICE)
        assert (code, "the reason has more than 500 characters" in err) == (2, True)


async def test_a_cancelled_command_has_an_outcome() -> None:
    began = asyncio.Event()

    async def carry_out(_flow: Flow, _command: Command, *_: Any) -> str:
        began.set()
        await asyncio.Event().wait()
        return ""

    async with rest_nodes(["one"], gate=gate(), carry_out=carry_out) as (node,), client() as http:
        node.stand(leads=True)
        sent = asyncio.create_task(http.post(f"{node.server.url}/flows/A/B/refresh", headers=bearer(ALICE)))
        await began.wait()
        assert [one.outcome for one in node.audit.all] == [ATTEMPTED]
        await node.server.stop(within=0.0)
        with pytest.raises(httpx.HTTPError):
            await sent
        assert [one.outcome for one in node.audit.all] == [ATTEMPTED, UNKNOWN]
