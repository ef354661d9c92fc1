"""``GET /flows/{source}/{target}/losses`` and ``mm2 losses``: what other programs rely on."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from pydantic import TypeAdapter

from mm2.core.lanes.lease import LossesLease
from mm2.core.lanes.losses import Loss, LossesUnreadableError, OnDataLoss
from mm2.core.lanes.progress_reports import PartitionProgress, SourceTaskProgress
from mm2.core.lanes.task_states import TaskState
from mm2.core.naming.names import Flow
from mm2.core.settings.client import ClientSettings
from mm2.node.status.progress import Losses
from tests.contract.nodes import rest_nodes
from tests.contract.samples import LOSS, flow, node, topic
from tests.contract.test_status_command import mm2

RECORDED = {
    "topic": "orders",
    "partition": 0,
    "first": 10,
    "until": 25,
    "reason": "retention was faster than replication",
    "kind": "retention",
    "time": 1_763_740_800_000,
    "last": 24,
    "count": 1,
    "lost": None,
    "topic_id": None,
    "stops": "",
    "accepted": False,
    "remote_topic": None,
    "accepted_at": None,
    "accepted_by": None,
    "accept_reason": None,
}


async def test_endpoint_and_command() -> None:
    async with rest_nodes(["one"]) as (one,):
        one.published = node(flow(), node_id="one")
        url = one.server.url
        code, out, err = await mm2("losses", url, "--json")
        assert (code, err) == (0, "")
        shown = {name: RECORDED[name] for name in ("topic", "partition", "first", "last", "time", "reason", "kind")}
        acceptance = ("accepted", "accepted_at", "accepted_by", "accept_reason", "remote_topic")
        more = {"offsets": 15, "count": 1, "stops": "", **{name: RECORDED[name] for name in acceptance}}
        assert json.loads(out) == [{"flow": "A->B", **shown, **more}]
        one.published = node(flow(topic("orders"), topic("users")), node_id="one")
        assert json.loads((await mm2("losses", url, "--topic", "users", "--json"))[1]) == []
        code, out, err = await mm2("losses", url, "--topic", "user")
        assert (code, out) == (2, "")
        assert err == ("mm2 losses: topic user is not replicated (use its name on the source). Did you mean users?\n")
        code, out, _ = await mm2("losses", url)
        heading, row = out.splitlines()
        assert heading.split() == [
            "flow",
            "topic",
            "partition",
            "first",
            "last",
            "offsets",
            "time",
            "kind",
            "state",
            "reason",
        ]
        assert row.split()[:8] == ["A->B", "orders", "0", "10", "24", "15", "2025-11-21T16:00:00Z", "retention"]
        assert row.split()[8:10] == ["not", "accepted"]
        code, _, err = await mm2("losses", url, "--flow", "A->C")
        assert (code, err) == (2, "mm2 losses: no flow A->C on the node; its flows: A->B\n")


async def test_who_accepted_a_loss_when_and_why() -> None:
    """The time when it was noticed is another one."""
    accepted = LOSS.accept(at=1_763_744_400_000, by="ann", reason="ticket 4711")

    async def read(flow: Flow) -> tuple[Loss, ...]:
        assert str(flow) == "A->B"
        return accepted, replace(LOSS, partition=1, kind="skipped"), replace(LOSS, partition=2, accepted=True)

    async with rest_nodes(["one"]) as (one,):
        one.published = node(flow(), node_id="one")
        one.read_losses = read
        _, out, _ = await mm2("losses", one.server.url)
        _, first, second, third = out.splitlines()
        assert "2025-11-21T16:00:00Z  retention  accepted 2025-11-21T17:00:00Z by ann: ticket 4711  " in first
        assert second.split()[7:9] == ["skipped", "intended"]
        assert third.split()[8:10] == ["accepted", "retention"], "by an earlier release"
        shown = json.loads((await mm2("losses", one.server.url, "--json"))[1])[0]
        names = ("time", "accepted_at", "accepted_by", "accept_reason")
        assert [shown[name] for name in names] == [1_763_740_800_000, 1_763_744_400_000, "ann", "ticket 4711"]


async def test_a_topic_that_was_deleted_has_losses() -> None:
    async with rest_nodes(["one"]) as (one,):
        one.published = node(flow(topics=()), node_id="one")
        code, out, _ = await mm2("losses", one.server.url, "--topic", "orders", "--json")
        assert (code, [loss["topic"] for loss in json.loads(out)]) == (0, ["orders"])


async def test_losses_that_cannot_be_read_are_not_no_losses() -> None:
    """A node whose target does not answer, and with a second flow that can be read."""
    unreadable = LossesUnreadableError("cannot read mm2-losses.A.internal: cluster B is unreachable")

    async def read(flow: Flow) -> tuple[Loss, ...]:
        if str(flow) == "A->B":
            raise unreadable
        return ()

    failure = "cannot read mm2-losses.A.internal: cluster B is unreachable"
    async with rest_nodes(["one"]) as (one,):
        one.read_losses = read
        one.published = node(flow(), node_id="one")
        for more in ((), ("--json", "--topic", "orders")):
            code, out, err = await mm2("losses", one.server.url, *more)
            assert (code, out) == (1, "")
            assert failure in err
            assert err.endswith("mm2 losses: cannot read the losses of A->B: there can be more\n")
        one.published = node(flow(), flow(flow="A->C", target="C"), node_id="one")
        code, out, err = await mm2("losses", one.server.url)
        assert (code, out) == (1, "no losses recorded (A->C)\n")
        assert failure in err


async def test_without_a_target_nothing_is_said_about_losses(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    closed = "127.0.0.1:1"
    file.write_text(
        f"clusters = A, B\nA.bootstrap.servers = {closed}\nB.bootstrap.servers = {closed}\nA->B.enabled = true\n"
    )
    code, out, err = await mm2("losses", str(file))
    assert (code, out) == (1, "")
    assert err.startswith("mm2 losses: A->B: cannot read mm2-losses.A.internal: cluster B")
    assert err.endswith("mm2 losses: cannot read the losses of A->B: there can be more\n")


async def test_response_fields() -> None:
    import httpx  # noqa: PLC0415

    async with rest_nodes(["one"]) as (one,), httpx.AsyncClient(base_url=one.server.url) as client:
        answer = await client.get("/flows/A/B/losses")
        assert (answer.status_code, answer.json()) == (200, {"flow": "A->B", "losses": [RECORDED]})
        answer = await client.get("/flows/A/C/losses")
        assert (answer.status_code, answer.json()) == (404, {"detail": "no flow A->C on this node; its flows: A->B"})


def test_a_report_of_a_later_release() -> None:
    """A lane of a later release can report kinds that we do not know."""
    progress = TypeAdapter(SourceTaskProgress)
    report = SourceTaskProgress(flow=Flow("A", "B"), source_task=0, epoch=1, state=TaskState.RUNNING, losses=(LOSS,))
    sent = json.loads(progress.dump_json(report))
    assert sent["losses"] == [RECORDED]
    sent["losses"] = [RECORDED | {"kind": "later"}]
    (later,) = progress.validate_json(json.dumps(sent)).losses
    assert later == replace(LOSS, kind="later")
    assert Losses().take(0, "run", (later,)) == [later]


def test_a_lease_without_a_policy_continues() -> None:
    adapter = TypeAdapter(LossesLease)
    lease = LossesLease(client=ClientSettings(bootstrap_servers=("b:1",)), topic="mm2-losses.A.internal")
    assert lease.on_data_loss is OnDataLoss.CONTINUE
    assert adapter.validate_json(adapter.dump_json(lease)) == lease
    assert PartitionProgress(topic="t", partition=0, remote_topic="A.t", state=TaskState.RUNNING).error is None
