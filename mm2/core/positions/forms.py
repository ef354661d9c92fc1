"""The forms in which programs keep positions, and in which ``mm2 translate`` returns them.

::

    Spark          {"orders":{"0":123,"1":-2}}     next offset; -2: from the beginning (startingOffsets, checkpoints)
    lines          orders:0:123                    next offset; empty lines and lines with # do not count
    Connect        {"offsets":[{"partition":{"kafka_topic":"orders","kafka_partition":0},
                                "offset":{"kafka_offset":123}}]}       next offset of a sink connector (KIP-875)
    MirrorMaker 2  {"offsets":[{"partition":{"cluster":"A","topic":"orders","partition":0},
                                "offset":{"offset":122}}]}             last copied offset of MirrorSourceConnector
    groups         billing,orders,0,123            output only: what kafka-consumer-groups.sh --from-file reads

``cluster`` of MirrorMaker's form is the alias of the cluster that has the topic. The output names the other cluster of
the flow, so it is what a flow *from there* stores: a flow that reads from B from now on continues at these offsets.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NoReturn, assert_never

from mm2.core.positions.positions import EARLIEST, LATEST, Position, TranslatedPosition

MOST_PROBLEMS = 20
"""A file in another form has one problem in each line: the first ones say it all."""

_MOST_PARTITION = 2**31 - 1
_MOST_OFFSET = 2**63 - 1
_DEEPEST = 8  # levels of arrays and objects; the forms have four
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
"""Names that Kafka allows (org.apache.kafka.common.internals.Topic)."""

_TOKENS = re.compile(r'"(?:[^"\\\n]|\\.)*"|[{}\[\]\n]')

LINES_FIX = "write topic:partition:offset, such as orders:0:123"
_CONNECT_FIX = (
    'write {"partition": {"kafka_topic": "orders", "kafka_partition": 0}, "offset": {"kafka_offset": 123}}, as GET'
    " /connectors/NAME/offsets returns it"
)
_MIRROR_FIX = (
    'write {"partition": {"cluster": "A", "topic": "orders", "partition": 0}, "offset": {"offset": 122}}, as GET'
    " /connectors/NAME/offsets returns it"
)
_SPARK_FIX = 'write {"orders":{"0":123}}, with an object of partitions and next offsets for each topic'


class PositionForm(StrEnum):
    """A form; the value is its name for people."""

    SPARK = "Spark"
    LINES = "lines"
    CONNECT = "Connect"
    MIRROR_MAKER = "MirrorMaker 2"
    GROUPS = "groups"


@dataclass(frozen=True, slots=True, kw_only=True)
class FormProblem:
    """What is wrong in ``line`` (from 1), and what to write instead."""

    line: int
    rule: str
    fix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedPosition:
    """A position, and the line in which it was found. For JSON it is that in which the innermost object begins."""

    position: Position
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionsFile:
    """Positions in the order of the file, which can repeat partitions, except in Spark's form."""

    form: PositionForm
    positions: tuple[PlacedPosition, ...]


class PositionsInvalidError(ValueError):
    """The text has none of the forms. ``problems`` has the first `MOST_PROBLEMS`; there are ``count``."""

    def __init__(self, problems: Sequence[FormProblem]) -> None:
        self.problems = tuple(problems[:MOST_PROBLEMS])
        self.count = len(problems)
        super().__init__("; ".join(f"line {one.line}: {one.rule}" for one in self.problems))


def parse_positions(text: str, cluster: str) -> PositionsFile:
    """Read positions; the form is recognised. ``cluster`` is the alias of the cluster whose positions they must be.

    Raises PositionsInvalidError with all problems.
    """
    text = text.removeprefix("\ufeff")
    reader = _Reader(cluster)
    if text.lstrip()[:1] in ("{", "["):
        form = reader.read_json(text)
    else:
        form = PositionForm.LINES
        for number, line in enumerate(text.splitlines(), 1):
            reader.read_line(number, line.strip())
    if not reader.positions and not reader.problems:
        reader.reject(1, "there is no position in it", LINES_FIX)
    if reader.problems:
        raise PositionsInvalidError(reader.problems)
    return PositionsFile(form=form, positions=tuple(reader.positions))


def write_positions(form: PositionForm, answers: Iterable[TranslatedPosition], cluster: str) -> str:
    """Return the positions on the other cluster, whose alias is ``cluster``, in this form.

    Positions without an answer are left out.
    """
    found = [(one, answer) for one in answers if (answer := one.answer) is not None]
    match form:
        case PositionForm.LINES:
            return "".join(f"{answer}\n" for _, answer in found)
        case PositionForm.GROUPS:
            out = io.StringIO()
            rows = ((one.group, answer.topic, answer.partition, answer.offset) for one, answer in found)
            csv.writer(out, lineterminator="\n").writerows(rows)
            return out.getvalue()
        case PositionForm.SPARK:
            topics: dict[str, dict[str, int]] = {}
            for _, answer in found:
                topics.setdefault(answer.topic, {})[str(answer.partition)] = answer.offset
            return _json(topics)
        case PositionForm.CONNECT:
            return _json({"offsets": [_connect_entry(answer) for _, answer in found]})
        case PositionForm.MIRROR_MAKER:
            return _json({"offsets": [_mirror_entry(answer, cluster) for _, answer in found]})
    assert_never(form)


def _connect_entry(answer: Position) -> Mapping[str, object]:
    return {
        "partition": {"kafka_topic": answer.topic, "kafka_partition": answer.partition},
        "offset": {"kafka_offset": answer.offset},
    }


def _mirror_entry(answer: Position, cluster: str) -> Mapping[str, object]:
    return {
        "partition": {"cluster": cluster, "partition": answer.partition, "topic": answer.topic},
        "offset": {"offset": answer.offset - 1},  # the last copied one; -1: nothing is copied yet, as in Java
    }


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":")) + "\n"


@dataclass(slots=True)
class _Object:
    """A JSON object. ``line`` is set when the whole text has been read."""

    members: dict[str, Any]
    repeated: str | None
    line: int = 0


class _EntryError(ValueError):
    """A value that is not allowed; the text is the rule."""


@dataclass(slots=True)
class _Reader:
    """Collects positions and problems."""

    cluster: str
    positions: list[PlacedPosition] = field(default_factory=list)
    problems: list[FormProblem] = field(default_factory=list)

    def reject(self, line: int, rule: str, fix: str) -> None:
        self.problems.append(FormProblem(line=line, rule=rule, fix=fix))

    def read_line(self, number: int, line: str) -> None:
        if not line or line.startswith("#"):
            return
        words = line.rsplit(":", 2)
        if len(words) != 3:
            self.reject(number, f"{_shown(line)} is not a position", LINES_FIX)
            return
        topic, partition, offset = words
        self._add(number, topic, _digits(partition), _digits(offset), LINES_FIX)

    def read_json(self, text: str) -> PositionForm:
        found = self._load(text)
        if found is None:
            return PositionForm.SPARK
        entries = found.members.get("offsets")
        if not isinstance(entries, list):
            self._read_spark(found)
            return PositionForm.SPARK
        form = PositionForm.CONNECT
        if any(isinstance(one, _Object) and _is_mirror(one) for one in entries):
            form = PositionForm.MIRROR_MAKER
        for entry in entries:
            self._read_entry(entry, found.line, form)
        return form

    def _read_spark(self, topics: _Object) -> None:
        if topics.repeated is not None:
            self.reject(topics.line, f"topic {_shown(topics.repeated)} occurs twice", _SPARK_FIX)
        for topic, partitions in topics.members.items():
            if not isinstance(partitions, _Object):
                rule = f"{_shown(topic)} must have an object of partitions, not {_shown(partitions)}"
                self.reject(topics.line, rule, _SPARK_FIX)
                continue
            if partitions.repeated is not None:
                rule = f"partition {_shown(partitions.repeated)} of {_shown(topic)} occurs twice"
                self.reject(partitions.line, rule, _SPARK_FIX)
            for partition, offset in partitions.members.items():
                self._add(partitions.line, topic, _digits(partition), offset, _SPARK_FIX, is_spark=True)

    def _read_entry(self, entry: object, line: int, form: PositionForm) -> None:
        is_mirror = form is PositionForm.MIRROR_MAKER
        fix = _MIRROR_FIX if is_mirror else _CONNECT_FIX
        partition = entry.members.get("partition") if isinstance(entry, _Object) else None
        offset = entry.members.get("offset") if isinstance(entry, _Object) else None
        if not isinstance(entry, _Object) or not isinstance(partition, _Object) or not isinstance(offset, _Object):
            at = entry.line if isinstance(entry, _Object) else line
            self.reject(at, "each of offsets must have the objects partition and offset", fix)
            return
        if not is_mirror:
            topic, number = partition.members.get("kafka_topic"), partition.members.get("kafka_partition")
            self._add(entry.line, topic, number, offset.members.get("kafka_offset"), fix)
            return
        cluster, last = partition.members.get("cluster"), offset.members.get("offset")
        if cluster != self.cluster:
            rule = f"cluster {_shown(cluster)} must be {self.cluster}, whose positions are translated"
            self.reject(entry.line, rule, f"use the offsets of a flow from {self.cluster}, or see --reverse")
            return
        if isinstance(last, int) and not isinstance(last, bool):
            last = max(last, -1) + 1  # Java treats each negative offset as none (MirrorSourceTask.isUncommitted)
        self._add(entry.line, partition.members.get("topic"), partition.members.get("partition"), last, fix)

    def _add(
        self, line: int, topic: object, partition: object, offset: object, fix: str, *, is_spark: bool = False
    ) -> None:
        try:
            if not isinstance(topic, str) or _TOPIC.fullmatch(topic) is None:
                raise _EntryError(f"{_shown(topic)} is not a topic name")  # noqa: TRY301 - collected below
            of_topic = f"of {topic}" if not isinstance(partition, int) else f"of {topic}-{partition}"
            number = _whole(partition, _MOST_PARTITION, f"the partition {of_topic}")
            if is_spark and offset == EARLIEST:
                next_offset = EARLIEST
            elif is_spark and offset == LATEST:
                raise _EntryError(  # noqa: TRY301 - collected below
                    f"-1 {of_topic} means the end when it is read, which is not a position"
                )
            else:
                next_offset = _whole(offset, _MOST_OFFSET, f"the offset {of_topic}")
        except _EntryError as error:
            self.reject(line, str(error), fix)
            return
        self.positions.append(PlacedPosition(position=Position(topic, number, next_offset), line=line))

    def _load(self, text: str) -> _Object | None:
        lines, is_deep = _object_lines(text)
        if is_deep:
            self.reject(1, f"it has more than {_DEEPEST} levels of arrays and objects", _SPARK_FIX)
            return None
        objects: list[_Object] = []

        def made(pairs: list[tuple[str, Any]]) -> _Object:
            counts = Counter(name for name, _ in pairs)
            repeated = next((name for name, count in counts.items() if count > 1), None)
            objects.append(_Object(dict(pairs), repeated))
            return objects[-1]

        try:
            found = json.loads(text, object_pairs_hook=made, parse_int=_int, parse_constant=_constant)
        except json.JSONDecodeError as error:
            self.reject(error.lineno, f"it is not JSON: {error.msg} in column {error.colno}", _SPARK_FIX)
            return None
        except ValueError as error:
            self.reject(1, f"it is not JSON: {error}", _SPARK_FIX)
            return None
        for one, line in zip(objects, lines, strict=True):
            one.line = line
        if not isinstance(found, _Object):
            self.reject(1, "it is an array, not an object", _SPARK_FIX)
            return None
        return found


def _object_lines(text: str) -> tuple[list[int], bool]:
    """Return the line in which each object begins, in the order of their ends, and whether there are too many levels.

    Of text that is not JSON the result has no meaning.
    """
    line, opened, lines = 1, [], []
    for token in _TOKENS.finditer(text):
        match token[0]:
            case "\n":
                line += 1
            case "{" | "[":
                opened.append(line)
                if len(opened) > _DEEPEST:
                    return [], True
            case "}" | "]" if opened:
                began = opened.pop()
                if token[0] == "}":
                    lines.append(began)
    return lines, False


def _is_mirror(entry: _Object) -> bool:
    partition = entry.members.get("partition")
    return isinstance(partition, _Object) and "cluster" in partition.members


def _int(text: str) -> int | str:
    return int(text) if len(text) <= len(str(-_MOST_OFFSET)) else text


def _constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number of JSON")


def _digits(text: str) -> int | str:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= len(str(_MOST_OFFSET)) else text


def _whole(value: object, most: int, what: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise _EntryError(f"{what} must be a whole number from 0 to {most}, not {_shown(value)}")
    return value


def _shown(value: object) -> str:
    if isinstance(value, _Object):
        return "an object"
    return f"{value!r:.100}" if not isinstance(value, str) else f"{value:.100}"
