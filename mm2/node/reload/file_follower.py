"""Applies changes of the configuration file to the running node, and logs them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

from mm2.config.grammar.problems import ProblemLog
from mm2.config.keys.election_keys import read_elections
from mm2.config.reload.change_lines import broken_lines, broken_reason, changed_lines, pending_reason, unchanged_line
from mm2.config.reload.changes import Change
from mm2.config.reload.comparison import ParsedConfig
from mm2.config.settings import NodeSettings
from mm2.core.access.audit import AuditOutcome, of_file
from mm2.core.settings.listener import ListenerSettings
from mm2.node.identity import NodeIdentity
from mm2.node.reload.file_watch import Event, FileChanged, FileInvalid, FileUnchanged, FileWatch
from mm2.node.status.status_model import FileStatus
from mm2.node.supervisor import Node


def in_force(began: ParsedConfig, now: ParsedConfig) -> NodeSettings:
    """Return the settings of a node that started with ``began`` and has loaded ``now``. Elections need a restart of the
    node, so all flows, including added ones, use those of ``began``. Listeners take over renewed certificates and keys,
    but no other settings."""
    commands = began.settings.own.rest_admin
    bare = tuple(replace(flow, election=None, takes_commands=commands) for flow in now.settings.flows)
    return replace(
        began.settings,
        clusters=now.settings.clusters,
        credentials=now.settings.credentials,
        flows=read_elections(bare, began.file.properties, ProblemLog("")),  # a valid file
        listening=_renewed(began.settings.listening, now.settings.listening),
        tokens=now.settings.tokens,
        own=began.settings.own.model_copy(
            update={"log_level": now.settings.own.log_level, "log_levels": now.settings.own.log_levels}
        ),
    )


def _renewed(began: ListenerSettings, now: ListenerSettings) -> ListenerSettings:
    if began.peers is None or now.peers is None:
        return began
    tls = replace(
        began.peers,
        ca_pem=now.peers.ca_pem,
        certificate_pem=now.peers.certificate_pem,
        key_pem=now.peers.key_pem,
        key_password=now.peers.key_password,
    )
    if began.tls is None:
        return replace(began, peers=tls)
    return replace(began, peers=tls, tls=replace(began.tls, tls=tls))


log = logging.getLogger("mm2.node")


class FileFollower:
    """Applies the events of a `FileWatch` to a node.

    Invariants: (A) Files are applied one after the other. (B) An error while applying a file ends neither the node nor
    the watch.
    """

    def __init__(
        self, watch: FileWatch, node: Node, identity: NodeIdentity, on_good: Callable[[NodeSettings], None]
    ) -> None:
        """``on_good`` is called with the new settings just before they are applied."""
        self._watch = watch
        self._node = node
        self._identity = identity
        self._on_good = on_good
        self._credentials = watch.reading.settings.credentials

    async def run(self) -> None:
        """Follow the file until cancelled."""
        async with aclosing(self._watch.events()) as events:
            async for event in events:
                try:
                    await self._take(event)
                except Exception:
                    log.exception("failed to apply the new configuration (unexpected error); restart the node")

    async def _take(self, event: Event) -> None:
        path = self._watch.path
        match event:
            case FileChanged():
                self._audit(AuditOutcome.ATTEMPTED, changed=event.diff.keys)
                settings = self._take_over(event.reading)
                for line in changed_lines(event.diff, event.pending):
                    log.info("%s", line)
                for warning in event.warnings:
                    log.warning("%s", warning)
                self._identity.reads(event.reading)
                self._node.file = file_status(self._watch, event.pending)
                await self._node.reload(settings, event.diff)
                log.info("%s: new configuration applied", path)
                self._audit(AuditOutcome.DONE, changed=event.diff.keys)
            case FileUnchanged():
                replaced = self._replaced(event.reading)
                self._take_over(event.reading)
                for file in replaced:
                    log.info("%s was replaced; it is used for the next token or ticket", file)
                if not replaced or event.repaired:
                    log.info("%s", unchanged_line(path, repaired=event.repaired))
                self._node.file = file_status(self._watch, event.pending)
                self._audit(AuditOutcome.DONE, detail="no changes")
            case FileInvalid():
                self._audit(AuditOutcome.REJECTED, detail=broken_reason(event.problems))
                for line in broken_lines(path, event.problems):
                    log.error("%s", line)
                self._node.file = _broken(self._node.file, event, path)

    def _audit(self, outcome: AuditOutcome, *, detail: str = "", changed: tuple[str, ...] = ()) -> None:
        self._node.audit(
            of_file(
                "reload",
                outcome,
                file=str(self._watch.path),
                sha256=self._watch.sha256,
                node=self._identity.node_id,
                time_ms=time.time_ns() // 1_000_000,
                detail=detail,
                changed=changed,
            )
        )

    def _replaced(self, reading: ParsedConfig) -> list[str]:
        """Return the files of credentials whose content has changed."""
        now = reading.settings.credentials
        return sorted(file for file, content in self._credentials.items() if now.get(file, content) != content)

    def _take_over(self, reading: ParsedConfig) -> NodeSettings:
        """Apply what does not belong to a flow; return the new settings."""
        settings = in_force(self._watch.began, reading)
        self._on_good(settings)
        self._node.use_credentials(settings.credentials)
        self._credentials = settings.credentials
        return settings


def file_status(watch: FileWatch, pending: tuple[Change, ...] = ()) -> FileStatus:
    """Return the status of a valid file that was read now."""
    return FileStatus(
        path=str(watch.path),
        digest=watch.digest,
        loaded_at=time.time(),
        pending=tuple(dict.fromkeys(change.key for change in pending)),
        reasons=(pending_reason(pending),) if pending else (),
    )


def _broken(before: FileStatus, event: FileInvalid, path: Path) -> FileStatus:
    """Return the status of an invalid file; the settings in effect do not change."""
    errors = tuple(str(problem) for problem in event.problems if not problem.is_warning)
    return FileStatus(
        path=str(path),
        digest=before.digest,
        loaded_at=before.loaded_at,
        pending=before.pending,
        problems=errors,
        reasons=(broken_reason(event.problems),),
    )
