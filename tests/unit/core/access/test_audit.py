from __future__ import annotations

import json

import pytest

from mm2.core.access.audit import (
    MOST_CHANGED,
    MOST_REASON,
    AuditOutcome,
    CommandOrigin,
    decided_elsewhere,
    of_command,
    of_failed_logins,
    of_file,
    read_origin,
)
from mm2.core.access.callers import Caller, Role
from mm2.core.access.failed_logins import FailedLoginReport
from mm2.node.commands.accept_loss import AcceptLoss
from mm2.node.commands.pause import Pause
from mm2.node.commands.refresh import Refresh
from mm2.node.commands.skip import Skip

ID = "0123456789abcdef"
ALICE = Caller(name="alice", role=Role.OPERATOR, address="10.0.0.7")
ORIGIN = CommandOrigin(id=ID, caller=ALICE, reason="CHG-1234")
AT = 1_769_860_800_123


def test_record_of_a_command() -> None:
    entry = of_command(
        Skip(topic="größe", partition=0, offset=0), "A->B", ORIGIN, AuditOutcome.ATTEMPTED, node="mm2-1", time_ms=AT
    )
    assert entry.to_json() == (
        '{"time":"2026-01-31T12:00:00.123Z","id":"0123456789abcdef","node":"mm2-1","what":"skip","who":"alice",'
        '"role":"operator","from":"10.0.0.7","flow":"A->B","on":{"topic":"größe","partition":0,"offset":0},'
        '"outcome":"attempted","reason":"CHG-1234"}'
    )
    assert not entry.is_alarming


@pytest.mark.parametrize(
    ("command", "on"),
    [
        (Refresh(), None),
        (Pause(), None),
        (Pause(topics=("a", "b")), {"topics": ["a", "b"]}),
        (AcceptLoss(topic="t"), {"topic": "t"}),
    ],
)
def test_what_a_command_does_not_name_is_left_out(command: Refresh | Pause | AcceptLoss, on: object) -> None:
    outcome = of_command(command, "A->B", ORIGIN, AuditOutcome.DONE, node="n", time_ms=AT, detail="x" * 2 * MOST_REASON)
    shown = json.loads(outcome.to_json())
    assert shown.get("on") == on
    assert (shown["outcome"], shown["detail"]) == ("done", "x" * MOST_REASON)


def test_text_of_others_cannot_forge_a_line() -> None:
    origin = CommandOrigin(id=ID, caller=ALICE, reason='x\n{"who":"eve"}\x1b\u2028\x85')
    line = of_command(Refresh(), "A->B", origin, AuditOutcome.DONE, node="n", time_ms=AT).to_json()
    assert line.isprintable()
    assert json.loads(line)["reason"] == origin.reason


def test_origin_of_a_forwarded_command() -> None:
    message = json.loads(json.dumps(ORIGIN.as_message("mm2-2")))
    assert read_origin(message, "f" * 16) == CommandOrigin(id=ID, caller=ALICE, reason="CHG-1234", via="mm2-2")
    unknown = read_origin(None, "f" * 16)
    assert (unknown.id, unknown.caller.name, unknown.via) == ("f" * 16, "unknown", None)
    for wrong in ({}, {**message, "id": "1"}, {**message, "caller": {**message["caller"], "role": "owner"}}, "alice"):
        with pytest.raises(ValueError, match=r"not the origin|is not a valid Role"):
            read_origin(wrong, ID)


def test_record_of_failed_logins() -> None:
    report = FailedLoginReport(address="10.0.0.9", detail="wrong token", name=None, count=12)
    entry = of_failed_logins(report, node="mm2-1", time_ms=AT)
    assert entry.is_alarming
    assert json.loads(entry.to_json()) == {
        "time": "2026-01-31T12:00:00.123Z",
        "node": "mm2-1",
        "what": "login",
        "from": "10.0.0.9",
        "outcome": "rejected",
        "detail": "wrong token",
        "count": 12,
    }


def test_record_of_a_file() -> None:
    keys = tuple(f"key-{one}" for one in range(MOST_CHANGED + 5))
    done = of_file("reload", AuditOutcome.DONE, file="f", sha256="0" * 64, node="n", time_ms=AT, changed=keys)
    shown = json.loads(done.to_json())
    assert (shown["file"], shown["sha256"], len(shown["changed"])) == ("f", "0" * 64, MOST_CHANGED + 1)
    assert shown["changed"][-1] == "and 5 more"
    rejected = of_file("reload", AuditOutcome.REJECTED, file="f", sha256="0", node="n", time_ms=AT, detail="wrong")
    assert rejected.is_alarming


@pytest.mark.parametrize(
    ("status", "forwarded", "elsewhere"),
    [(None, True, True), (404, True, True), (409, True, True), (403, True, False), (500, True, False)]
    + [(status, False, False) for status in (None, 404, 409, 500)],
)
def test_one_node_stores_the_outcome(status: int | None, forwarded: bool, elsewhere: bool) -> None:
    assert decided_elsewhere(status, forwarded=forwarded) is elsewhere
