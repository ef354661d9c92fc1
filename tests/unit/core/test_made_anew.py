from __future__ import annotations

from mm2.core.made_anew import remote_made_anew, source_made_anew


def test_people_are_told_which_topic_and_what_becomes_of_its_records() -> None:
    assert source_made_anew("orders", "A") == (
        "topic orders was deleted and made anew on A: it is copied from its beginning, and its remote topic keeps the"
        " old records"
    )
    assert remote_made_anew("A.orders", "B") == (
        "remote topic A.orders was deleted and made anew on B: what was copied before is not in it, and is not copied"
        " again"
    )
