"""``mm2 offsets``: where consumer groups would resume on the target, read from the clusters.

At a failover the node or the source cluster may be unreachable.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from mm2.cli.clusters.cluster_access import ask, choose_flow, note, read_settings
from mm2.cli.clusters.flow_offsets import FlowOffsets, read_flow_offsets
from mm2.cli.clusters.group_positions import Answer, GroupPosition, PartitionPosition, StoredCheckpoint
from mm2.cli.errors import DONE
from mm2.cli.terminal.screen import print_json, show_once
from mm2.cli.terminal.tables import counted, duration, table
from mm2.core.naming.names import Flow


def offsets(file: Path, *, flow: str | None = None, group: Sequence[str] = (), json: bool = False) -> int:
    """Print the offsets of groups. Raises CommandError if they cannot be read."""
    settings = choose_flow(read_settings(file), flow)
    found = ask(
        read_flow_offsets(settings, group), f"reading offsets of {settings.flow.source} and {settings.flow.target}"
    )
    for text in found.notes:
        note(f"mm2 offsets: {text}")
    now_ms = time.time() * 1000
    if json:
        print_json(offsets_json(found))
    else:
        show_once(lambda: offsets_view(found, now_ms))
    return DONE


def offsets_view(found: FlowOffsets, now_ms: float) -> RenderableType:
    """Return a line about the flow, then for each group a heading, a table, and what could not be translated."""
    flow = Flow.parse(found.flow)
    parts: list[RenderableType] = [Text.assemble((found.flow, "bold"), "  ", _summary(found.groups))]
    for group in found.groups:
        parts += [Text(), _heading(group, flow)]
        if group.partitions:
            parts.append(_table(group, flow, now_ms))
        parts += [Text(f"  ! {text}", style="yellow") for text in _complaints(group)]
    if found.left_out:
        parts += [Text(), Text("not translated:", style="dim")]
        parts += [Text(f"  {name}: {reason}", style="dim") for name, reason in found.left_out.items()]
    return Group(*parts)


def offsets_json(found: FlowOffsets) -> dict[str, object]:
    """Return the same for programs."""
    return {
        "flow": found.flow,
        "notes": list(found.notes),
        "groups": [_group_json(group) for group in found.groups],
        "not_translated": dict(found.left_out),
    }


def _summary(groups: Iterable[GroupPosition]) -> str:
    groups = tuple(groups)
    partitions = [one for group in groups for one in group.partitions]
    by_answer = Counter(one.answer for one in partitions)
    words = [f"{counted(len(groups), 'group')}, {counted(len(partitions), 'partition')}"]
    if by_answer[Answer.EXACT]:
        words.append(f"{by_answer[Answer.EXACT]:,} exact")
    if by_answer[Answer.CONSERVATIVE]:
        again = [one.read_again for one in partitions if one.answer is Answer.CONSERVATIVE]
        known = sum(records for records in again if records is not None)
        bound = "" if None in again else f" (at most {counted(known, 'record')} read again)"
        words.append(f"{by_answer[Answer.CONSERVATIVE]:,} conservative{bound}")
    if by_answer[Answer.NONE]:
        words.append(f"{by_answer[Answer.NONE]:,} not translated")
    return ": ".join([words[0], ", ".join(words[1:])]) if partitions else words[0]


def _heading(group: GroupPosition, flow: Flow) -> Text:
    words = [f"{flow.target}: {group.target_state or 'no such group'}"]
    if group.from_checkpoints:
        words.insert(0, f"positions on {flow.source} from the last checkpoints")
    else:
        words.insert(0, f"{flow.source}: {group.source_state or 'state unknown'}")
    return Text.assemble((f"group {group.group}", "bold"), "  ", "  ".join(words))


_STYLES = {Answer.EXACT: "green", Answer.CONSERVATIVE: "yellow", Answer.NONE: "red"}


def _table(group: GroupPosition, flow: Flow, now_ms: float) -> RenderableType:
    shown = table(
        "partition",
        "#source offset",
        "remote partition",
        "#translated",
        "answer",
        "#read again",
        f"#offset on {flow.target}",
        "last checkpoint",
    )
    for one in group.partitions:
        shown.add_row(
            str(one.partition),
            _offset(one.source_offset),
            str(one.remote),
            _offset(one.translated),
            Text(one.answer.value, style=_STYLES[one.answer]),
            _read_again(one),
            _offset(one.target_offset),
            _checkpoint(one.checkpoint, now_ms),
        )
    return shown


def _complaints(group: GroupPosition) -> Iterator[str]:
    if group.filtered is not None:
        yield f"no checkpoints are written: {group.filtered}"
    if not group.partitions:
        yield "no committed offsets"
    for one in group.partitions:
        if one.reason is not None:
            yield f"{one.partition}: {one.reason}"


def _offset(offset: int | None) -> str:
    return "-" if offset is None else f"{offset:,}"


def _read_again(one: PartitionPosition) -> str:
    if one.answer is Answer.CONSERVATIVE:
        return "unknown" if one.read_again is None else f"at most {one.read_again:,}"
    return "0" if one.answer is Answer.EXACT else "-"


def _checkpoint(stored: StoredCheckpoint | None, now_ms: float) -> str:
    if stored is None:
        return "none"
    age = duration(max(0.0, (now_ms - stored.written_ms) / 1000))
    return f"{stored.checkpoint.upstream_offset:,} -> {stored.checkpoint.downstream_offset:,}, {age} ago"


def _group_json(group: GroupPosition) -> dict[str, object]:
    return {
        "group": group.group,
        "source_state": group.source_state,
        "target_state": group.target_state,
        "filtered": group.filtered,
        "positions_from": "checkpoints" if group.from_checkpoints else "source",
        "partitions": [_partition_json(one) for one in group.partitions],
    }


def _partition_json(one: PartitionPosition) -> Mapping[str, object]:
    stored = one.checkpoint
    return {
        "topic": one.partition.topic,
        "partition": one.partition.partition,
        "source_offset": one.source_offset,
        "remote_topic": one.remote.topic,
        "translated_offset": one.translated,
        "answer": one.answer.value,
        "read_again": one.read_again,
        "reason": one.reason,
        "checkpoint": None
        if stored is None
        else {
            "source_offset": stored.checkpoint.upstream_offset,
            "translated_offset": stored.checkpoint.downstream_offset,
            "written_ms": stored.written_ms,
        },
        "target_offset": one.target_offset,
    }
