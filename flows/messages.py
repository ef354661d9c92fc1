"""Reading of what the node sends: the start of the engine, its orders, and leases."""

from __future__ import annotations

from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

T = TypeVar("T")

_MOST_PLACES = 5
"""Places that an error names: more do not help to find the cause, which is another release in most cases."""


class MessageInvalidError(Exception):
    """The node sent something else than this release expects."""


def read_message(adapter: TypeAdapter[T], content: str | bytes, what: str) -> T:
    """Return the message in ``content``. ``what`` it is, for the error.

    Raises MessageInvalidError. pydantic's error contains parts of the message, which has passwords and keys.
    """
    try:
        return adapter.validate_json(content)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        places = "; ".join(f"{'.'.join(map(str, one['loc'])) or 'text'}: {one['type']}" for one in found[:_MOST_PLACES])
    raise MessageInvalidError(f"the node sent an invalid {what} ({places}): is the same release of mm2 installed?")
