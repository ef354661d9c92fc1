from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from flows.routing.partition_router import load_handler
from mm2.core.mirror1.user_class import SourceRecord, TargetRecord, UserClass, UserClassError

RECORD = SourceRecord(topic="t", partition=1, offset=2, timestamp_ms=3, key=b"k", value=None, headers=(("h", None),))


class Twice:
    def handle(self, record: SourceRecord) -> Sequence[TargetRecord]:
        return [TargetRecord(topic=record.topic, key=record.key, value=record.value)] * 2


class WithArguments:
    def __init__(self, arguments: str) -> None:
        self.arguments = arguments

    def handle(self, record: SourceRecord) -> Any:
        return self.arguments if record.key else None


def test_without_a_handler_records_are_written_as_they_are() -> None:
    (made,) = load_handler(None)(RECORD)
    assert made == TargetRecord(topic="t", key=b"k", value=None, timestamp_ms=3, headers=(("h", None),))


def test_a_handler_makes_any_number_of_records() -> None:
    assert len(load_handler(UserClass(name=f"{__name__}:Twice", arguments=None))(RECORD)) == 2


def test_what_is_not_a_list_of_records() -> None:
    handle = load_handler(UserClass(name=f"{__name__}:WithArguments", arguments="wrong"))
    with pytest.raises(UserClassError, match="returned 'wrong', not a list of TargetRecord"):
        handle(RECORD)


@pytest.mark.parametrize(("name", "arguments"), [("nowhere:Class", None), (f"{__name__}:Twice", "one too many")])
def test_classes_that_cannot_be_created(name: str, arguments: str | None) -> None:
    with pytest.raises(UserClassError, match=f"{name} cannot be created: "):
        load_handler(UserClass(name=name, arguments=arguments))
