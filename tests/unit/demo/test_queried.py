"""The query of the demo: what is expected of it, and the records that are shown."""

from __future__ import annotations

import random
from pathlib import Path

from mm2.core.settings.row_query import RowQuery
from tests.demo.events import streams
from tests.demo.queried import NAME, PROPERTIES, TOPIC, after_query, samples
from tests.lab.history import Record
from tests.unit.config import files

LIVE = b'{"payment":1,"order":1,"test":false,"card":"4111222233334444"}'
TEST = b'{"payment":2,"order":2,"test":true,"card":"4111222233334444"}'


def record(offset: int, value: bytes) -> Record:
    return Record(0, offset, (b"order-%d" % offset, value, (), 0))


def test_expected_values() -> None:
    assert after_query(LIVE) == b'{"payment":1,"order":1,"test":false,"card":"************4444"}'
    assert after_query(TEST) is None


def test_properties(tmp_path: Path) -> None:
    query = files.flow(tmp_path, PROPERTIES).query_of(TOPIC)
    assert query is not None
    assert query.name == NAME
    assert isinstance(query.action, RowQuery)
    assert str(query.action) == "sets value, drops records"


def test_only_payments_change() -> None:
    plain, queried = ({one.topic: one for one in streams(sql=sql)} for sql in (False, True))
    assert [topic for topic, one in queried.items() if one != plain[topic]] == [TOPIC]
    rng = random.Random(1)
    values = [queried[TOPIC].event(rng, number).value or b"" for number in range(100)]
    assert 0 < sum(after_query(value) is None for value in values) < 100


def test_samples_are_the_last_copied_record_and_the_last_dropped_one_before_it() -> None:
    source = [record(0, LIVE), record(1, TEST), record(2, LIVE), record(3, TEST), record(4, LIVE)]
    masked = after_query(LIVE) or b""
    shown = samples(source, [record(0, masked), record(2, masked)])
    assert [(one.before, one.after) for one in shown] == [(LIVE, masked), (TEST, None)]
    assert samples(source, []) == ()
    assert [one.after for one in samples(source[:1], [record(0, masked)])] == [masked]
