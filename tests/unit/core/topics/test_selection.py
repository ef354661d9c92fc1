"""What enters and leaves the selection of topics, and who hears of it."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from mm2.core.naming.names import Flow
from mm2.core.topics.selection import Selection, SelectionChange, counted, left_reason, next_selection, unselected

FLOW = Flow("A", "B")


def step(
    before: Selection,
    selected: str,
    present: str,
    *,
    copied: str = "",
    failed: str = "",
    excluded: Collection[str] = (),
    file_changed: bool = False,
) -> tuple[Selection, SelectionChange]:
    """Run a round; topics are single letters, and the filter selects those in ``selected`` only."""
    dropped = unselected(before, frozenset(copied), selected=frozenset(selected), present=frozenset(present))
    return next_selection(
        before,
        selected=frozenset(selected),
        failed=frozenset(failed),
        present=frozenset(present),
        dropped=dropped,
        excluded=excluded,
        file_changed=file_changed,
    )


def test_topics_of_a_first_start_are_new() -> None:
    now, change = step(Selection(), "ab", "abz")
    assert change == SelectionChange(new=("a", "b"))
    assert now == Selection(selected=frozenset("ab"), present=frozenset("abz"))
    assert step(now, "ab", "abz")[1] == SelectionChange(), "nothing has changed"


def test_a_created_topic_is_new_and_a_deleted_one_has_not_left() -> None:
    now, _ = step(Selection(), "ab", "abz")
    now, change = step(now, "bc", "bcz")
    assert change == SelectionChange(new=("c",))
    assert now.left == frozenset()


def test_a_changed_file_adds_topics_that_existed_and_drops_others() -> None:
    now, _ = step(Selection(), "ab", "abz")
    now, change = step(now, "bz", "abz")
    assert change == SelectionChange(added=("z",), dropped=("a",))
    assert now.left == frozenset("a")
    now, change = step(now, "bz", "abz")
    assert (now.left, change) == (frozenset("a"), SelectionChange()), "it is said once"
    assert step(now, "bz", "bz")[0].left == frozenset(), "it was deleted"
    assert step(now, "abz", "abz") == (
        Selection(selected=frozenset("abz"), present=frozenset("abz")),
        SelectionChange(added=("a",)),
    )


def test_another_leader_knows_what_was_copied_before() -> None:
    """From the published lists, and from the stored offsets of topics that left the selection earlier."""
    lists = Selection(selected=frozenset("ab"))
    now, change = step(lists, "a", "abcz", copied="abc", file_changed=True)
    assert (now.left, change.dropped) == (frozenset("bc"), ("b", "c"))
    now, change = step(lists, "abz", "abz", copied="ab", file_changed=True)
    assert change == SelectionChange(added=("z",))
    now, change = step(lists, "abz", "abz", copied="ab")
    assert change == SelectionChange(new=("z",)), "with the same file it was created since"


def test_what_topics_exclude_names_has_left_on_purpose() -> None:
    now, _ = step(Selection(), "ab", "ab")
    now, change = step(now, "a", "ab", excluded="b")
    assert (now.left, change.dropped) == (frozenset(), ("b",))
    now, change = step(now, "a", "ab", copied="ab", excluded="b")
    assert (now.left, change.dropped) == (frozenset(), ())
    now, change = step(now, "a", "ab", copied="ab")
    assert (now.left, change.dropped) == (frozenset("b"), ("b",)), "the line was removed from the file"


def test_a_topic_with_an_error_has_its_own_message() -> None:
    now, change = step(Selection(), "ab", "ab", failed="b")
    assert change.new == ("a",)
    assert step(now, "ab", "ab")[1] == SelectionChange()


def test_one_line_for_many_topics() -> None:
    many = tuple(f"t{number:03}" for number in range(103))
    lines = dict(SelectionChange(new=many, added=("a",), dropped=("b", "c")).lines(FLOW))
    assert lines[False].startswith("103 topics selected: t000, t001, ")
    assert lines[False].endswith(", t099 and 3 more")
    (_, added), (_, dropped) = SelectionChange(added=("a",), dropped=("b", "c")).lines(FLOW)
    assert added == "1 topic entered the selection with a changed file, and will be copied to B: a"
    assert dropped == ("2 topics left the selection, and will not be copied any more although they exist on A: b, c")
    assert list(SelectionChange().lines(FLOW)) == []


@pytest.mark.parametrize(
    ("left", "reason"),
    [
        ((), None),
        (
            ("a",),
            "1 topic was replicated and is not selected any more, although it exists on A: a; select them again, or add"
            " them to A->B.topics.exclude if that is intended",
        ),
        (
            tuple("hgfedcba"),
            "8 topics were replicated and are not selected any more, although they exist on A: a, b, c, d, e, f and 2"
            " more; select them again, or add them to A->B.topics.exclude if that is intended",
        ),
    ],
)
def test_reason(left: Collection[str], reason: str | None) -> None:
    assert left_reason(left, FLOW) == reason


def test_counts() -> None:
    assert counted(["a"]) == "1 topic"
    assert counted(range(1_200)) == "1,200 topics"  # type: ignore[arg-type]
