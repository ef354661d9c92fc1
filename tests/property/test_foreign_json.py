"""Whatever bytes arrive, a decoder returns a value or raises its documented error: any producer can write them.

The documents are random, deeply nested, or have the decoders' own field names with random values.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mm2.core.assignment.checkpoint_task_records import decode_groups
from mm2.core.assignment.rebalance import rebalance
from mm2.core.assignment.source_task_records import decode_source_task
from mm2.core.assignment.source_task_reports import decode_report
from mm2.core.assignment.task_placement import TaskAssignments
from mm2.core.coordination.command_records import decode_command
from mm2.core.coordination.config_fingerprint import decode_fingerprint
from mm2.core.coordination.latest_starts import decode_selection
from mm2.core.coordination.pauses import decode_pauses
from mm2.core.coordination.query_history_records import QueryHistories
from mm2.core.coordination.query_uses import ReportedQueryUses
from mm2.core.coordination.session_keys import decode_session_key
from mm2.core.coordination.skips import decode_skips
from mm2.core.coordination.task_fencing import COMMIT_KEY, FENCING_KEY, NO_FENCING
from mm2.core.offsets.connect_offsets import decode_key, decode_offset
from mm2.core.offsets.exact_offset_records import decode_segment
from mm2.core.wire.formats import Checkpoint, FormatError, Heartbeat, OffsetSync
from mm2.core.wire.json_bytes import decode_json
from mm2.core.wire.status_records import decode_status, decode_topic_use
from mm2.election.kafka.group_messages import GroupAnswer, decode_answer, decode_member
from mm2.election.protocol import MemberInfo
from mm2.election.zookeeper.zookeeper_election import RebalanceMessage, decode_round
from mm2.node.commands.registry import command_types
from mm2.rest.merge.group_merge import GroupsUnreadableError, read_groups

_MEMBER = {"node": "n", "url": "http://n", "capacity": 1, "tasks": ["a"], "epoch": 3, "kinds": ["K"]}
VALID: dict[str, object] = {
    # records of the config topic and of the status topic
    "epoch": 1,
    "version": 1,
    "part": 0,
    "parts": 1,
    "partitions": {"t": [0]},
    "ids": {"t": [None, None]},
    "groups": ["g"],
    "member": "m",
    "demands": {"t": [[0, 9]]},
    "flow": True,
    "topics": ["t"],
    "exclude": ["u"],
    "filter": "acme.Filter",
    "digest": "1-x",
    "terms": {"a": "b"},
    "key": "c2VjcmV0",
    "algorithm": "HmacSHA256",
    "creation-timestamp": 7,
    "command": "pause",
    "state": "RUNNING",
    "worker_id": "n",
    "generation": 4,
    "trace": None,
    "offset": 5,
    "topic": {"name": "t", "connector": "c", "task": 0, "discoverTimestamp": 1},
    # group messages and znodes
    **{key: value for key, value in _MEMBER.items() if key != "epoch"},
    "leader": "m",
    "members": {"m": _MEMBER},
    "assignment": None,
    "error": "",
    "shared": [1],
    "answer": {"m": 0},
    # the leader's assignment
    "nodes": ["n"],
    "seen": [["n", 1]],
    "skips": [{"topic": "t", "partition": 0, "offset": 5}],
    "task-count": 5,
    "unused": [[0, 3]],
    "places": [["MirrorSourceConnector-0", 0, 0, 1, 0, None, None]],
}
"""A message that every decoder of JSON objects accepts, except for the members of an assignment."""

FIELDS = (*VALID,)
TEXTS = st.text(st.characters(), max_size=5) | st.sampled_from(
    ["\ud800", "MirrorSourceConnector-0", "pause", "resume", "restart", "refresh", "RUNNING", "one"]
)
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2),
    st.integers(),
    st.sampled_from([2**31, 2**63 - 1, 2**63, 10**400, float("nan"), float("inf"), 1e308]),
    TEXTS,
)
VALUES = st.recursive(
    LEAVES,
    lambda children: (
        st.lists(children, max_size=4) | st.dictionaries(TEXTS | st.sampled_from(FIELDS), children, max_size=4)
    ),
    max_leaves=12,
)
CHANGES = st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=3)
MESSAGES = CHANGES.map(lambda changes: VALID | changes) | VALUES
PLACEMENTS = CHANGES.map(lambda changes: VALID | {"members": ["m"]} | changes)
DEPTHS = st.sampled_from([10, 64, 65, 300, 950, 1_000, 5_000, 200_000])
DOCUMENTS = st.one_of(
    st.none(),
    st.binary(max_size=40),
    st.builds(lambda message: json.dumps(message).encode(), MESSAGES),
    st.builds(lambda depth: b"[" * depth, DEPTHS),
    st.builds(lambda depth: b'{"a":' * depth + b"1" + b"}" * depth, DEPTHS),
    st.builds(
        lambda field, depth: b'{"%s":' % field.encode() + b"[" * depth + b"]" * depth + b"}",
        st.sampled_from(FIELDS),
        DEPTHS,
    ),
)

Decoder = Callable[[bytes | None], object]
TYPES = command_types()


def compressed(raw: bytes) -> bytes:
    """As the leader's answers to the members of a group are sent."""
    return b"\x01" + lzma.compress(raw)


DECODERS: dict[str, Decoder] = {
    "any JSON": lambda raw: decode_json(raw, "record"),
    "source task": lambda raw: decode_source_task(b"mm2-source-task-0", raw),
    "groups": lambda raw: decode_groups(b"mm2-groups-0", raw),
    "report": lambda raw: decode_report(b"mm2-source-task-0", raw),
    "command": lambda raw: decode_command(raw, TYPES),
    "fingerprint": decode_fingerprint,
    "pauses": decode_pauses,
    "skips": decode_skips,
    "latest starts": decode_selection,
    "fencing": lambda raw: NO_FENCING.take(FENCING_KEY, raw),
    "number of tasks": lambda raw: NO_FENCING.take(COMMIT_KEY, raw),
    "query": lambda raw: QueryHistories().take(b"mm2-query-" + b"ab" * 32, raw),
    "query history": lambda raw: QueryHistories().take(b"mm2-query-history-t-0", raw),
    "report about queries": lambda raw: ReportedQueryUses().take(b"mm2-query-use-0", raw),
    "session key": lambda raw: decode_session_key(raw or b""),
    "offset key": decode_key,
    "offset": decode_offset,
    "exact offsets": lambda raw: decode_segment(raw, raw),
    "status": decode_status,
    "topic use": decode_topic_use,
    "offset sync": lambda raw: OffsetSync.decode(raw, raw),
    "checkpoint": lambda raw: Checkpoint.decode(raw, raw),
    "heartbeat": lambda raw: Heartbeat.decode(raw, raw),
}


@pytest.mark.parametrize(
    "name",
    [
        *("source task", "groups", "report", "command", "fingerprint", "pauses", "skips", "latest starts", "fencing"),
        "session key",
    ],
)
def test_the_valid_message_is_valid(name: str) -> None:
    assert DECODERS[name](json.dumps(VALID).encode()) is not None


def test_the_valid_message_is_valid_for_groups() -> None:
    raw = json.dumps(VALID).encode()
    assert decode_member(raw) is not None
    assert (answer := decode_answer(compressed(raw))) is not None
    assert answer.members
    assert decode_round(raw) is not None
    assert TaskAssignments.from_json(VALID | {"members": ["m"]}) is not None


@pytest.mark.parametrize("name", DECODERS)
@given(raw=DOCUMENTS)
def test_records_raise_nothing_but_a_format_error(name: str, raw: bytes | None) -> None:
    with suppress(FormatError):
        DECODERS[name](raw)


@given(raw=DOCUMENTS)
def test_group_messages_and_znodes_never_raise(raw: bytes | None) -> None:
    assert isinstance(decode_member(raw or b""), MemberInfo | None)
    assert isinstance(decode_answer(raw or b""), GroupAnswer | None)
    assert isinstance(decode_answer(compressed(raw or b"")), GroupAnswer | None)
    assert isinstance(decode_round(raw or b""), RebalanceMessage | None)


@given(raw=DOCUMENTS)
def test_groups_of_another_node_raise_nothing_but_their_error(raw: bytes | None) -> None:
    with suppress(GroupsUnreadableError):
        read_groups(raw or b"", due=True)


@given(message=MESSAGES | PLACEMENTS)
def test_foreign_assignments_never_end_a_rebalance(message: object) -> None:
    placement = TaskAssignments.from_json(message)
    if placement is not None:
        rebalance({}, {}, before=placement, epoch=2**31, now_ms=0)
