"""The consumer groups of a flow as JSON, and those of several nodes merged into one answer.

Responses are split and joined as text: parsing 100,000 partitions into objects would block the event loop for seconds.
This works because `groups_json` writes one group per line, and JSON strings contain no line breaks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import TypeAdapter

from mm2.core.assignment.tasks import TaskKind
from mm2.core.wire.formats import FormatError
from mm2.core.wire.json_bytes import decode_json
from mm2.node.status.status_model import FlowGroups, FlowStatus, GroupStatus

_HEAD = TypeAdapter(FlowGroups)
_GROUP = TypeAdapter(GroupStatus)

_BEGIN, _NEXT, _END = b'"groups":[', b",\n", b"]}"
"""The JSON of `FlowGroups` before, between and after the groups; these bytes occur nowhere else in it."""

_NAME = re.compile(rb'\{"group":(?P<name>"(?:[^"\\]|\\.)*")')


class GroupsUnreadableError(Exception):
    """A response does not have the format of `groups_json`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupShare:
    """The groups of one node: the JSON of each by its name. ``due``: the node has a checkpoint task."""

    due: bool
    reasons: tuple[str, ...]
    groups: Mapping[str, bytes]


def groups_json(flow: FlowStatus) -> bytes:
    """Return the flow's `FlowGroups` as JSON. It is written group by group: pydantic holds the GIL while it writes, and
    100,000 partitions in one call would block the event loop for half a second."""
    return _head(flow, flow.group_reasons) + _NEXT.join(map(_GROUP.dump_json, flow.groups)) + _END


def _head(flow: FlowStatus, reasons: tuple[str, ...]) -> bytes:
    """Return the JSON up to the first group."""
    head = FlowGroups(flow=flow.flow, source=flow.source, target=flow.target, reasons=reasons, groups=())
    return _HEAD.dump_json(head).removesuffix(_END)


def read_groups(body: bytes, *, due: bool) -> GroupShare:
    """Split a response of `groups_json`. Raises GroupsUnreadableError."""
    head, begin, rest = body.partition(_BEGIN)
    if not begin or not rest.endswith(_END):
        raise GroupsUnreadableError("no list of groups")
    try:
        reasons = tuple(decode_json(head + _BEGIN + _END, "groups")["reasons"])
    except (ValueError, KeyError, TypeError) as error:
        raise GroupsUnreadableError("no list of reasons") from error
    listed = rest.removesuffix(_END)
    groups = {_name(group): group for group in listed.split(_NEXT)} if listed else {}
    return GroupShare(due=due, reasons=reasons, groups=groups)


def merge_groups(flow: FlowStatus, shares: Sequence[GroupShare], unseen: Iterable[str]) -> bytes:
    """Return all ``shares`` as one response, sorted by group. A group of several shares is that of the first one.

    ``unseen``: reasons for nodes that did not answer. Other reasons are those of nodes that have groups, or of all
    nodes if none has.
    """
    relevant = [share for share in shares if share.due or share.groups] or shares
    reasons = dict.fromkeys([*(reason for share in relevant for reason in share.reasons), *unseen])
    groups: dict[str, bytes] = {}
    for share in shares:
        groups = {**share.groups, **groups}
    rows = _NEXT.join(groups[name] for name in sorted(groups))
    return _head(flow, tuple(reasons)) + rows + _END


def is_due(tasks: Iterable[str]) -> bool:
    """Return whether ``tasks`` contain a checkpoint task, which translates the offsets of groups."""
    return any(task.startswith(TaskKind.CHECKPOINT) for task in tasks)


def _name(group: bytes) -> str:
    found = _NAME.match(group)
    if found is None:
        raise GroupsUnreadableError("a group without a name")
    try:
        return str(decode_json(found["name"], "group"))
    except FormatError as error:
        raise GroupsUnreadableError("a group without a name") from error
