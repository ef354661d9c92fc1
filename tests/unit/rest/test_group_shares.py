from __future__ import annotations

import json

import pytest

from mm2.core.names import Flow
from mm2.node.published import GroupState, GroupStatus
from mm2.rest.group_shapes import groups_json
from mm2.rest.group_shares import GroupShare, GroupsUnreadableError, is_due, joined, read_groups
from tests.contract.samples import flow

A_B = Flow("A", "B")


def group(name: str, state: GroupState = GroupState.TRANSLATED, reason: str = "all is well") -> GroupStatus:
    return GroupStatus(group=name, state=state, reason=reason)


def share(*groups: GroupStatus, due: bool = True, reasons: tuple[str, ...] = ()) -> GroupShare:
    return read_groups(groups_json(flow(groups=groups, group_reasons=reasons)), due=due)


def names(answer: bytes) -> list[str]:
    return [one["group"] for one in json.loads(answer)["groups"]]


ODD = ('a"b', 'x","groups":[', "line\nbreak,\nmore", "größe", "\\", "]}")


def test_an_answer_is_taken_apart_and_put_together_again() -> None:
    status = flow(groups=tuple(map(group, ODD)), group_reasons=('"groups":[', "]},\n"))
    found = read_groups(groups_json(status), due=True)
    assert set(found.groups) == set(ODD)
    again = json.loads(joined(A_B, [found], ()))
    before = json.loads(groups_json(status))
    before["groups"].sort(key=lambda one: one["group"])
    assert again == before


def test_groups_of_several_nodes_in_one_list() -> None:
    answer = joined(A_B, [share(group("m"), group("a")), share(group("b")), share()], ())
    assert names(answer) == ["a", "b", "m"]
    head = json.loads(answer)
    assert (head["flow"], head["source"], head["target"], head["reasons"]) == ("A->B", "A", "B", [])


def test_a_group_that_two_show_is_there_once_as_the_first_one_has_it() -> None:
    answer = joined(A_B, [share(group("g", reason="first")), share(group("g", reason="second"))], ())
    assert [one["reason"] for one in json.loads(answer)["groups"]] == ["first"]


def test_reasons_of_nodes_without_groups_count_only_where_nobody_has_any() -> None:
    idle = share(due=False, reasons=("node b looks after groups",))
    starting = share(due=True, reasons=("offset syncs are being read",))
    found = json.loads(joined(A_B, [idle, starting], ("c is away",)))["reasons"]
    assert found == ["offset syncs are being read", "c is away"]
    found = json.loads(joined(A_B, [idle, share(group("g"), due=False)], ()))["reasons"]
    assert found == []
    found = json.loads(joined(A_B, [idle, idle], ()))["reasons"]
    assert found == ["node b looks after groups"]


def test_no_groups_at_all() -> None:
    assert names(joined(A_B, [share()], ())) == []


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"", "no list"),
        (b'{"detail":"Not Found"}', "no list"),
        (b'{"reasons":[],"groups":[', "no list"),
        (b'{"groups":[]}', "no reasons"),
        (b'nonsense"groups":[]}', "no reasons"),
        (b'{"reasons":null,"groups":[]}', "no reasons"),
        (b'{"reasons":[],"groups":[{"name":"g"}]}', "has no name"),
    ],
)
def test_what_is_no_answer_of_a_node(body: bytes, sentence: str) -> None:
    with pytest.raises(GroupsUnreadableError, match=sentence):
        read_groups(body, due=True)


def test_who_looks_after_groups() -> None:
    assert is_due(["MirrorSourceConnector-0", "MirrorCheckpointConnector-3"])
    assert not is_due(["MirrorSourceConnector-0"])
