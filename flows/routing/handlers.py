"""Message handlers of users, and what is written without one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mm2.core.mirror1.user_class import SourceRecord, TargetRecord, UserClass, UserClassError, new_instance
from mm2.core.plugins import described

Handle = Callable[[SourceRecord], Sequence[TargetRecord]]


def as_it_is(record: SourceRecord) -> Sequence[TargetRecord]:
    """Return the record for the topic of the same name."""
    return (
        TargetRecord(
            topic=record.topic,
            key=record.key,
            value=record.value,
            timestamp_ms=record.timestamp_ms if record.timestamp_ms >= 0 else None,
            headers=record.headers,
        ),
    )


def load_handler(handler: UserClass | None) -> Handle:
    """Return the function that makes records for the target. Raises UserClassError."""
    if handler is None:
        return as_it_is
    own = new_instance(handler)

    def handle(record: SourceRecord) -> Sequence[TargetRecord]:
        try:
            made = own.handle(record)
        except Exception as error:
            raise UserClassError(f"message handler {handler.name} raised {described(error)}") from error
        if not isinstance(made, Sequence) or not all(map(_is_record, made)):
            raise UserClassError(
                f"message handler {handler.name} returned {made!r:.200}, not a list of TargetRecord with bytes"
            )
        return made

    return handle


def _is_record(made: object) -> bool:
    """Return whether a record can be written; handlers are not type-checked."""
    return (
        isinstance(made, TargetRecord)
        and isinstance(made.topic, str)
        and all(part is None or isinstance(part, bytes) for part in (made.key, made.value))
        and (made.partition is None or (isinstance(made.partition, int) and made.partition >= 0))
        and (made.timestamp_ms is None or isinstance(made.timestamp_ms, int))
        and all(isinstance(name, str) and isinstance(value, bytes | None) for name, value in made.headers)
    )
