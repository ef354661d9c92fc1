"""Records of who did what: lines of the logger ``mm2.audit`` and of mm2.audit.file, and records of the audit topic.

One JSON object each; fields that do not apply are left out (docs/reference/audit.md)::

    {"time":"2026-01-31T12:00:00.123Z","id":"5f0c…","node":"mm2-1","what":"pause","who":"alice","role":"operator",
     "from":"10.0.0.7","flow":"A->B","on":{"topics":["orders"]},"outcome":"attempted","reason":"CHG-1234"}

A command has two: one before anything is executed, and one with the outcome; both have its ID, on every node that
handles it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum

from mm2.core.access.callers import UNKNOWN_NAME, Caller, Role
from mm2.core.access.failed_logins import FailedLoginReport
from mm2.core.coordination.commands import Command
from mm2.core.printable import printable_json
from mm2.core.problems.times_in_words import utc_text_ms

MOST_REASON = 500
"""Maximum characters of the reason of a command, and of a detail: a few lines."""

_ID = re.compile(r"[0-9a-f]{16}")


class AuditOutcome(StrEnum):
    """What became of it."""

    ATTEMPTED = "attempted"
    """It was authorized, and is executed next."""
    DONE = "done"
    REJECTED = "rejected"
    """Nothing was changed."""
    UNKNOWN = "unknown"
    """It failed, or there was no answer: it may have been executed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandOrigin:
    """Where a command comes from. ``id``: 16 hex digits, the same on all nodes; ``reason``: as the operator gave it;
    ``via``: ID of the node that forwarded it; None: the operator sent it to this node."""

    id: str
    caller: Caller
    reason: str | None = None
    via: str | None = None

    def as_message(self, node: str) -> dict[str, object]:
        """Return the origin as JSON for the leader, to which ``node`` forwards the command."""
        return {"id": self.id, "caller": asdict(self.caller), "reason": self.reason, "via": node}


def read_origin(message: object, id: str) -> CommandOrigin:
    """Read `CommandOrigin.as_message`. Nodes of an earlier release send none: then ``id`` is its ID, and who sent the
    command is unknown. Raises ValueError if it is something else."""
    match message:
        case None:
            return CommandOrigin(id=id, caller=Caller(name=UNKNOWN_NAME, role=Role.OPERATOR, address=""))
        case {
            "id": str(sent),
            "caller": {"name": str(name), "role": str(role), "address": str(address)},
            "reason": str() | None as reason,
            "via": str(via),
        } if _ID.fullmatch(sent):
            return CommandOrigin(
                id=sent, caller=Caller(name=name, role=Role(role), address=address), reason=reason, via=via
            )
    raise ValueError(f"not the origin of a command: {message!r:.200}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One record. ``time_ms``: since 1970; ``node``: the ID of the node that writes it; ``on``: what it acts on,
    beside the flow. Of a file: its path and the digest of its content; ``changed``: the keys that changed in it.
    ``count``: how many requests a record of failed logins stands for."""

    time_ms: int
    node: str
    what: str
    outcome: AuditOutcome
    id: str | None = None
    who: str | None = None
    role: Role | None = None
    address: str | None = None
    via: str | None = None
    flow: str | None = None
    on: Mapping[str, object] = field(default_factory=dict)
    detail: str | None = None
    reason: str | None = None
    file: str | None = None
    sha256: str | None = None
    changed: tuple[str, ...] = ()
    count: int | None = None

    @property
    def is_alarming(self) -> bool:
        """Whether it is a failed login, or a file that was rejected: a warning in the log."""
        return self.flow is None and self.outcome is AuditOutcome.REJECTED

    def to_json(self) -> str:
        """Return the record as one line, without control characters."""
        fields = {
            "time": utc_text_ms(self.time_ms / 1000),
            "id": self.id,
            "node": self.node,
            "what": self.what,
            "who": self.who,
            "role": self.role,
            "from": self.address,
            "via": self.via,
            "flow": self.flow,
            "on": {name: value for name, value in self.on.items() if value not in (None, ())},
            "file": self.file,
            "sha256": self.sha256,
            "changed": self.changed,
            "outcome": self.outcome,
            "detail": self.detail,
            "reason": self.reason,
            "count": self.count,
        }
        given = {name: value for name, value in fields.items() if value not in (None, "", (), {})}
        return printable_json(json.dumps(given, ensure_ascii=False, separators=(",", ":")))


def of_command(
    command: Command,
    flow: str,
    origin: CommandOrigin,
    outcome: AuditOutcome,
    *,
    node: str,
    time_ms: int,
    detail: str = "",
) -> AuditEntry:
    """Return the record of a command."""
    return AuditEntry(
        time_ms=time_ms,
        node=node,
        what=command.command,
        outcome=outcome,
        id=origin.id,
        who=origin.caller.name,
        role=origin.caller.role,
        address=origin.caller.address,
        via=origin.via,
        flow=flow,
        on=asdict(command),
        detail=detail[:MOST_REASON],
        reason=origin.reason,
    )


def of_failed_logins(report: FailedLoginReport, *, node: str, time_ms: int) -> AuditEntry:
    """Return the record of failed logins."""
    return AuditEntry(
        time_ms=time_ms,
        node=node,
        what="login",
        outcome=AuditOutcome.REJECTED,
        who=report.name,
        address=report.address,
        detail=report.detail[:MOST_REASON],
        count=report.count,
    )


MOST_CHANGED = 100
"""Maximum number of keys in the record of a reload."""


def of_file(
    what: str,
    outcome: AuditOutcome,
    *,
    file: str,
    sha256: str,
    node: str,
    time_ms: int,
    detail: str = "",
    changed: tuple[str, ...] = (),
) -> AuditEntry:
    """Return the record of a configuration file that was read at the start, or again. ``changed``: keys; more than
    `MOST_CHANGED` are cut off, and the last element says so."""
    if len(changed) > MOST_CHANGED:
        changed = (*changed[:MOST_CHANGED], f"and {len(changed) - MOST_CHANGED} more")
    return AuditEntry(
        time_ms=time_ms,
        node=node,
        what=what,
        outcome=outcome,
        file=file,
        sha256=sha256,
        detail=detail[:MOST_REASON],
        changed=changed,
    )


def decided_elsewhere(status: int | None, *, forwarded: bool) -> bool:
    """Return whether the leader has written the record of a command: it has executed or rejected it. ``status``: that
    of its response to this node, which ``forwarded`` the command; None: success."""
    return forwarded and status in (None, 404, 409)
