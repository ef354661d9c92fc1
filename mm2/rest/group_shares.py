"""From the consumer groups that the nodes of a flow show to those of the whole flow.

Answers are taken apart and put together as text: 100,000 partitions as objects would hold up the event loop for
seconds. That works as `groups_json` writes one group a line, and JSON has no line breaks within a text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mm2.core.names import Flow
from mm2.core.tasks import TaskKind
from mm2.rest.group_shapes import GROUPS_BEGIN, GROUPS_END, NEXT_GROUP, groups_head

_NAME = re.compile(rb'\{"group":(?P<name>"(?:[^"\\]|\\.)*")')


class GroupsUnreadableError(Exception):
    """An answer is not what a node writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupShare:
    """The groups that one node shows: the JSON of each by its name. ``due``: it was given groups to look after."""

    due: bool
    reasons: tuple[str, ...]
    groups: Mapping[str, bytes]


def read_groups(body: bytes, *, due: bool) -> GroupShare:
    """Take an answer of `groups_json` apart. Raises GroupsUnreadableError."""
    head, begin, rest = body.partition(GROUPS_BEGIN)
    if not begin or not rest.endswith(GROUPS_END):
        raise GroupsUnreadableError("it has no list of groups")
    try:
        reasons = tuple(json.loads(head + GROUPS_BEGIN + GROUPS_END)["reasons"])
    except (ValueError, KeyError, TypeError) as error:
        raise GroupsUnreadableError("it has no reasons") from error
    listed = rest.removesuffix(GROUPS_END)
    groups = {_name(group): group for group in listed.split(NEXT_GROUP)} if listed else {}
    return GroupShare(due=due, reasons=reasons, groups=groups)


def joined(flow: Flow, shares: Sequence[GroupShare], unseen: Iterable[str]) -> bytes:
    """One answer from all ``shares``, by the names of groups; the first that shows a group has the word. ``unseen``:
    sentences about nodes that could not be asked. Reasons are those of nodes with groups, or all where nobody has."""
    speak = [share for share in shares if share.due or share.groups] or shares
    reasons = dict.fromkeys([*(reason for share in speak for reason in share.reasons), *unseen])
    groups: dict[str, bytes] = {}
    for share in shares:
        groups = {**share.groups, **groups}
    rows = NEXT_GROUP.join(groups[name] for name in sorted(groups))
    return groups_head(flow, tuple(reasons)) + rows + GROUPS_END


def is_due(tasks: Iterable[str]) -> bool:
    """Whether a node that was given ``tasks`` looks after groups."""
    return any(task.startswith(TaskKind.CHECKPOINT) for task in tasks)


def _name(group: bytes) -> str:
    found = _NAME.match(group)
    if found is None:
        raise GroupsUnreadableError("one of its groups has no name")
    return str(json.loads(found["name"]))
