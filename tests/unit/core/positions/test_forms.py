from __future__ import annotations

import json
from dataclasses import replace

import pytest

from mm2.core.naming.names import TopicPartition
from mm2.core.positions.answer import Precision
from mm2.core.positions.forms import (
    MOST_PROBLEMS,
    FormProblem,
    PositionForm,
    PositionsInvalidError,
    parse_positions,
    write_positions,
)
from mm2.core.positions.positions import Position, TranslatedPosition


def row(
    topic: str, partition: int, offset: int | None, *, reverse: bool = False, group: str | None = None
) -> TranslatedPosition:
    return TranslatedPosition(
        source=TopicPartition(topic, partition),
        source_offset=offset if reverse else 1,
        remote=TopicPartition(f"A.{topic}", partition),
        remote_offset=1 if reverse else offset,
        precision=Precision.EXACT,
        reason="",
        reverse=reverse,
        group=group,
    )


CONNECT = """{
  "offsets": [
    {
      "partition": {"kafka_partition": 0, "kafka_topic": "orders"},
      "offset": {"kafka_offset": 1000}
    },
    {"partition": {"kafka_partition": 1, "kafka_topic": "orders"}, "offset": {"kafka_offset": 7}}
  ]
}"""
MIRROR = """{"offsets": [
  {"partition": {"cluster": "A", "partition": 0, "topic": "orders"}, "offset": {"offset": 999}},
  {"partition": {"cluster": "A", "partition": 1, "topic": "orders"}, "offset": {"offset": -1}},
  {"partition": {"cluster": "A", "partition": 2, "topic": "orders"}, "offset": {"offset": -2}}
]}"""


@pytest.mark.parametrize(
    ("text", "form", "expected"),
    [
        (
            '{"orders":{"0":123,"10":-2},"offsets":{"1":0}}',
            PositionForm.SPARK,
            [("orders", 0, 123, 1), ("orders", 10, -2, 1), ("offsets", 1, 0, 1)],
        ),
        (
            '\ufeff\n{"a":\n{"0":1},\n"b":{\n"0":2}}',
            PositionForm.SPARK,
            [("a", 0, 1, 3), ("b", 0, 2, 4)],
        ),
        (
            "# from the database\n\n a.b_c-D:0:5 \norders:2147483647:9223372036854775807\norders:0:0\norders:0:0\n",
            PositionForm.LINES,
            [
                ("a.b_c-D", 0, 5, 3),
                ("orders", 2**31 - 1, 2**63 - 1, 4),
                ("orders", 0, 0, 5),
                ("orders", 0, 0, 6),
            ],
        ),
        (CONNECT, PositionForm.CONNECT, [("orders", 0, 1000, 3), ("orders", 1, 7, 7)]),
        (MIRROR, PositionForm.MIRROR_MAKER, [("orders", 0, 1000, 2), ("orders", 1, 0, 3), ("orders", 2, 0, 4)]),
    ],
)
def test_forms_are_recognised(text: str, form: PositionForm, expected: list[tuple[str, int, int, int]]) -> None:
    read = parse_positions(text, "A")
    assert read.form is form
    assert [(*_fields(one.position), one.line) for one in read.positions] == expected


def _fields(position: Position) -> tuple[str, int, int]:
    return position.topic, position.partition, position.offset


def entry(partition: object, offset: object) -> str:
    return json.dumps({"offsets": [{"partition": partition, "offset": offset}]})


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("", [(1, "there is no position in it")]),
        ("{}", [(1, "there is no position in it")]),
        ('{"offsets":[]}', [(1, "there is no position in it")]),
        ("orders:0:1\norders:0\n", [(2, "orders:0 is not a position")]),
        (
            "a:0:x\nb:-1:0\nc d:0:1\n:0:1\n",
            [
                (1, "the offset of a-0 must be a whole number from 0 to 9223372036854775807, not x"),
                (2, "the partition of b must be a whole number from 0 to 2147483647, not -1"),
                (3, "c d is not a topic name"),
                (4, " is not a topic name"),
            ],
        ),
        ("a:0:9223372036854775808", [(1, "the offset of a-0 must be a whole number")]),
        ("a:0:" + "9" * 5_000, [(1, "the offset of a-0 must be a whole number")]),
        ("a:٣:1", [(1, "the partition of a must be a whole number")]),
        ('{"orders":\n{"0":123}', [(2, "it is not JSON: Expecting ',' delimiter in column 10")]),
        ("[]", [(1, "it is an array, not an object")]),
        ('{"a":NaN}', [(1, "it is not JSON: NaN is not a number of JSON")]),
        ("[" * 100_000, [(1, "it has more than 8 levels of arrays and objects")]),
        ("{]}}", [(1, "it is not JSON: Expecting property name")]),
        (
            '{"orders":5,\n"b":[]}',
            [(1, "orders must have an object"), (1, "b must have an object of partitions, not []")],
        ),
        ('{"a":{"0":1},\n"a":{"1":2}}', [(1, "topic a occurs twice")]),
        ('{"a":\n{"0":1,"0":2}}', [(2, "partition 0 of a occurs twice")]),
        ('{"a":{"0":-1}}', [(1, "-1 of a-0 means the end when it is read, which is not a position")]),
        ('{"a":{"0":-3}}', [(1, "the offset of a-0 must be a whole number")]),
        ('{"a":{"0":1.5}}', [(1, "not 1.5")]),
        ('{"a":{"0":true}}', [(1, "not True")]),
        ('{"a":{"0":{}}}', [(1, "not an object")]),
        ('{"a":{"0":' + "1" * 5_000 + "}}", [(1, "the offset of a-0 must be a whole number")]),
        ('{"a":{"x":1}}', [(1, "the partition of a must be a whole number")]),
        ('{"\\ud800":{"0":1}}', [(1, "is not a topic name")]),
        ('{"offsets":[5]}', [(1, "each of offsets must have the objects partition and offset")]),
        ('{"offsets":[\n{"partition":{}}]}', [(2, "each of offsets must have the objects partition and offset")]),
        (entry({}, None), [(1, "each of offsets must have the objects")]),
        (entry({"kafka_topic": "a", "kafka_partition": 0}, {}), [(1, "the offset of a-0 must be a whole number")]),
        (entry({"kafka_topic": "a", "kafka_partition": 0}, {"kafka_offset": -2}), [(1, "the offset of a-0")]),
        (entry({"kafka_partition": 0}, {"kafka_offset": 0}), [(1, "None is not a topic name")]),
        (
            entry({"cluster": "C", "topic": "a", "partition": 0}, {"offset": 0}),
            [(1, "cluster C must be A, whose positions are translated")],
        ),
        (entry({"cluster": "A", "topic": "a", "partition": 0}, {"offset": None}), [(1, "not None")]),
        (entry({"cluster": "A", "topic": "a", "partition": 0}, {"offset": True}), [(1, "not True")]),
    ],
)
def test_problems(text: str, problems: list[tuple[int, str]]) -> None:
    with pytest.raises(PositionsInvalidError) as raised:
        parse_positions(text, "A")
    found = raised.value.problems
    assert [one.line for one in found] == [line for line, _ in problems]
    for one, (_, rule) in zip(found, problems, strict=True):
        assert rule in one.rule
        assert len(one.rule) < 300
        assert one.fix.startswith(("write", "use"))
    assert raised.value.count == len(found)
    assert str(raised.value).startswith(f"line {found[0].line}: ")


def test_problems_are_limited() -> None:
    with pytest.raises(PositionsInvalidError) as raised:
        parse_positions("x\n" * 1_000, "A")
    assert (len(raised.value.problems), raised.value.count) == (MOST_PROBLEMS, 1_000)
    fix = "write topic:partition:offset, such as orders:0:123"
    assert raised.value.problems[0] == FormProblem(line=1, rule="x is not a position", fix=fix)


ROWS = [row("orders", 0, 123), row("orders", 1, 0), row("users", 0, None), row("orders", 2, 7)]


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        (PositionForm.SPARK, '{"A.orders":{"0":123,"1":0,"2":7}}\n'),
        (PositionForm.LINES, "A.orders:0:123\nA.orders:1:0\nA.orders:2:7\n"),
        (
            PositionForm.CONNECT,
            '{"offsets":[{"partition":{"kafka_topic":"A.orders","kafka_partition":0},"offset":{"kafka_offset":123}},'
            '{"partition":{"kafka_topic":"A.orders","kafka_partition":1},"offset":{"kafka_offset":0}},'
            '{"partition":{"kafka_topic":"A.orders","kafka_partition":2},"offset":{"kafka_offset":7}}]}\n',
        ),
        (
            PositionForm.MIRROR_MAKER,
            '{"offsets":[{"partition":{"cluster":"B","partition":0,"topic":"A.orders"},"offset":{"offset":122}},'
            '{"partition":{"cluster":"B","partition":1,"topic":"A.orders"},"offset":{"offset":-1}},'
            '{"partition":{"cluster":"B","partition":2,"topic":"A.orders"},"offset":{"offset":6}}]}\n',
        ),
    ],
)
def test_output_has_the_form_of_the_input(form: PositionForm, expected: str) -> None:
    written = write_positions(form, ROWS, "B")
    assert written == expected
    read = parse_positions(written, "B")  # what is written can be read again
    assert read.form is form
    assert [_fields(one.position) for one in read.positions] == [
        ("A.orders", 0, 123),
        ("A.orders", 1, 0),
        ("A.orders", 2, 7),
    ]
    reverse = [replace(one, reverse=True) for one in ROWS]
    assert "A." not in write_positions(form, reverse, "A")


def test_groups_as_kafka_consumer_groups_reads_them() -> None:
    rows = [row("orders", 0, 5, group="billing"), row("orders", 1, 6, group='a, "b"'), row("x", 0, None, group="y")]
    written = write_positions(PositionForm.GROUPS, rows, "B")
    assert written == 'billing,A.orders,0,5\n"a, ""b""",A.orders,1,6\n'
