from __future__ import annotations

import json

import pytest

from mm2.node.status.status_model import GroupStatus
from mm2.rest.merge.group_merge import GroupShare, GroupsUnreadableError, groups_json, is_due, merge_groups, read_groups
from tests.contract.samples import flow, group


def share(*groups: GroupStatus, due: bool = True, reasons: tuple[str, ...] = ()) -> GroupShare:
    return read_groups(groups_json(flow(groups=groups, group_reasons=reasons)), due=due)


def names(answer: bytes) -> list[str]:
    return [one["group"] for one in json.loads(answer)["groups"]]


ODD = ('a"b', 'x","groups":[', "line\nbreak,\nmore", "größe", "\\", "]}")


def test_json_round_trip() -> None:
    status = flow(groups=tuple(map(group, ODD)), group_reasons=('"groups":[', "]},\n"))
    found = read_groups(groups_json(status), due=True)
    assert set(found.groups) == set(ODD)
    again = json.loads(merge_groups(flow(), [found], ()))
    before = json.loads(groups_json(status))
    before["groups"].sort(key=lambda one: one["group"])
    assert again == before


def test_groups_of_several_nodes() -> None:
    answer = merge_groups(flow(), [share(group("m"), group("a")), share(group("b")), share()], ())
    assert names(answer) == ["a", "b", "m"]
    head = json.loads(answer)
    assert (head["flow"], head["source"], head["target"], head["reasons"]) == ("A->B", "A", "B", [])


def test_duplicate_group_is_listed_once() -> None:
    answer = merge_groups(flow(), [share(group("g", reason="first")), share(group("g", reason="second"))], ())
    assert [one["reason"] for one in json.loads(answer)["groups"]] == ["first"]


def test_reasons_of_nodes_without_groups_are_used_only_if_there_are_no_groups() -> None:
    idle = share(due=False, reasons=("node b checkpoints the groups",))
    starting = share(due=True, reasons=("offset syncs are being read",))
    found = json.loads(merge_groups(flow(), [idle, starting], ("c is away",)))["reasons"]
    assert found == ["offset syncs are being read", "c is away"]
    found = json.loads(merge_groups(flow(), [idle, share(group("g"), due=False)], ()))["reasons"]
    assert found == []
    found = json.loads(merge_groups(flow(), [idle, idle], ()))["reasons"]
    assert found == ["node b checkpoints the groups"]


def test_no_groups() -> None:
    assert names(merge_groups(flow(), [share()], ())) == []


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "no list"),
        (b'{"detail":"Not Found"}', "no list"),
        (b'{"reasons":[],"groups":[', "no list"),
        (b'{"groups":[]}', "no list of reasons"),
        (b'nonsense"groups":[]}', "no list of reasons"),
        (b'{"reasons":null,"groups":[]}', "no list of reasons"),
        (b'{"reasons":[],"groups":[{"name":"g"}]}', "a group without a name"),
    ],
)
def test_invalid_responses(body: bytes, message: str) -> None:
    with pytest.raises(GroupsUnreadableError, match=message):
        read_groups(body, due=True)


def test_nodes_with_groups() -> None:
    assert is_due(["MirrorSourceConnector-0", "MirrorCheckpointConnector-3"])
    assert not is_due(["MirrorSourceConnector-0"])
