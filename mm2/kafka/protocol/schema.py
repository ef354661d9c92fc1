"""Kafka messages defined by tables of fields: encoding and decoding.

A table is a dict from field name to type, in wire order; it is the grammar of the message:

    INT8, INT16, INT32, INT64, BOOL     a number, or True and False
    STRING, BYTES, UUID                 a value or None
    [type]                              an array or None
    {name: type, ...}                   a struct
    Since(version, type)                a field of later versions only; ``until`` is the last version that has it
    Tagged(tag, type)                   a field in the tag section of flexible versions, which is only decoded

A struct's value is a tuple of its fields in the order of the table, the fields of other versions included: they are
ignored when encoding, and None when decoded. Fields whose names start with ``_`` are skipped when decoding and are not
part of the tuple. In flexible versions (KIP-482) lengths are varints, and every struct ends with a tag section, which
is written empty. When it is read, tags without a field are skipped. Tagged fields are the last ones of a table.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any
from uuid import UUID as Uuid

Encoder = Callable[[bytearray, Any], None]
"""Appends a value."""

Decoder = Callable[[bytes, int], tuple[Any, int]]
"""Decodes the value at a position in the bytes, and returns it with the position after it."""

_Step = tuple[Callable[[list[Any], Any], None], Decoder]
"""The decoder of one or more fields, with the function that adds its result to the struct's values."""

NO_TAGS = 0  # an empty tag section

_ZERO_UUID = bytes(16)
_LAST_SHIFT = 28  # of a number of 5 bytes
_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")


class Fixed(Enum):
    """Types of fixed length, with their format in `struct`."""

    INT8 = "b"
    INT16 = "h"
    INT32 = "i"
    INT64 = "q"
    BOOL = "?"


class Variable(Enum):
    """Types without a format in `struct`."""

    STRING = "string"
    BYTES = "bytes"
    UUID = "uuid"


INT8, INT16, INT32, INT64, BOOL = Fixed
STRING, BYTES, UUID = Variable


@dataclass(frozen=True, slots=True)
class Since:
    """A field of versions ``first`` to ``until``; None: all later ones."""

    first: int
    type: Type
    until: int | None = None

    def includes(self, version: int) -> bool:
        """Return whether ``version`` has the field."""
        return self.first <= version and (self.until is None or version <= self.until)


@dataclass(frozen=True, slots=True)
class Tagged:
    """A field in the tag section; None if the section does not contain ``tag``."""

    tag: int
    type: Type


Table = Mapping[str, "Type"]
Type = Fixed | Variable | Sequence["Type"] | Table | Since | Tagged


def encoder(type_: Type, version: int, *, flexible: bool) -> Encoder:
    """Return the encoder of ``type_`` in this version."""
    if isinstance(type_, Mapping):
        return _struct_encoder(type_, version, flexible)
    if isinstance(type_, Fixed):
        encode = _fixed_encoder(type_.value)
        return lambda out, value: encode(out, (value,))
    if isinstance(type_, Variable):
        return _variable_encoder(type_, flexible)
    assert isinstance(type_, Sequence)
    element = encoder(type_[0], version, flexible=flexible)

    def encode_array(out: bytearray, values: Sequence[Any] | None) -> None:
        _put_length(out, None if values is None else len(values), _INT32, flexible)
        for value in values or ():
            element(out, value)

    return encode_array


def _struct_encoder(table: Table, version: int, flexible: bool) -> Encoder:
    fields: list[tuple[int | slice, Encoder]] = []
    layout, first = "", 0  # of adjacent fields of fixed length, which are packed together
    for index, field in enumerate(table.values()):
        type_ = _in_version(field, version)
        if isinstance(type_, Fixed):
            layout, first = layout + type_.value, first if layout else index
            continue
        if layout:
            fields.append((slice(first, index), _fixed_encoder(layout)))
            layout = ""
        if type_ is not None:
            fields.append((index, encoder(type_, version, flexible=flexible)))
    layout, first = f"{layout}x" if flexible else layout, first if layout else len(table)  # x: no tags
    if layout:
        fields.append((slice(first, len(table)), _fixed_encoder(layout)))
    if [where for where, _ in fields] == [slice(0, len(table))]:
        return fields[0][1]

    def encode_struct(out: bytearray, values: Sequence[Any]) -> None:
        for where, encode in fields:
            encode(out, values[where])

    return encode_struct


def _in_version(field: Type, version: int) -> Type | None:
    """Return the field's type; None if ``version`` does not have it among the fields before the tag section."""
    if isinstance(field, Tagged):
        return None
    if not isinstance(field, Since):
        return field
    return field.type if field.includes(version) else None


def _fixed_encoder(layout: str) -> Encoder:
    pack = struct.Struct(f">{layout}").pack

    def encode_fixed(out: bytearray, values: Sequence[Any]) -> None:
        out += pack(*values)

    return encode_fixed


def _variable_encoder(type_: Variable, flexible: bool) -> Encoder:
    def encode_uuid(out: bytearray, value: Uuid | None) -> None:
        out += value.bytes if value is not None else _ZERO_UUID

    def encode_bytes(out: bytearray, value: str | bytes | None) -> None:
        raw = value.encode() if isinstance(value, str) else value
        _put_length(out, None if raw is None else len(raw), _INT16 if type_ is STRING else _INT32, flexible)
        out += raw or b""

    return encode_uuid if type_ is UUID else encode_bytes


def _put_length(out: bytearray, length: int | None, plain: struct.Struct, flexible: bool) -> None:
    if not flexible:
        out += plain.pack(-1 if length is None else length)
        return
    varint = 0 if length is None else length + 1
    while varint > 0x7F:
        out.append(varint & 0x7F | 0x80)
        varint >>= 7
    out.append(varint)


def decoder(type_: Type, version: int, *, flexible: bool) -> Decoder:
    """Return the decoder of ``type_`` in this version."""
    if isinstance(type_, Mapping):
        return _struct_decoder(type_, version, flexible)
    if isinstance(type_, Fixed):
        decode = _fixed_decoder(type_.value)

        def decode_one(data: bytes, at: int) -> tuple[Any, int]:
            (value,), at = decode(data, at)
            return value, at

        return decode_one
    if isinstance(type_, Variable):
        return _variable_decoder(type_, flexible)
    assert isinstance(type_, Sequence)
    return _array_decoder(type_[0], version, flexible)


def _struct_decoder(table: Table, version: int, flexible: bool) -> Decoder:
    steps = _steps(table, version, flexible)
    tagged = [field for field in table.values() if isinstance(field, Tagged)]
    if flexible and tagged:
        return _tagged_struct_decoder(steps[: -len(tagged)], tagged, version)

    def decode_struct(data: bytes, at: int) -> tuple[Any, int]:
        values: list[Any] = []
        for take, step in steps:
            found, at = step(data, at)
            take(values, found)
        return (tuple(values), skip_tags(data, at)) if flexible else (tuple(values), at)

    return decode_struct


def _tagged_struct_decoder(steps: list[_Step], tagged: Sequence[Tagged], version: int) -> Decoder:
    absent = (None,) * len(tagged)
    decoders = {field.tag: (index, decoder(field.type, version, flexible=True)) for index, field in enumerate(tagged)}

    def decode_struct(data: bytes, at: int) -> tuple[Any, int]:
        values: list[Any] = []
        for take, step in steps:
            found, at = step(data, at)
            take(values, found)
        if data[at] == NO_TAGS:
            return (*values, *absent), at + 1
        extra: list[Any] = list(absent)
        count, at = varint(data, at)
        for _ in range(count):
            tag, at = varint(data, at)
            size, at = varint(data, at)
            if tag in decoders:
                index, decode = decoders[tag]
                extra[index], _ = decode(data, at)
            at += size
        return (*values, *extra), at

    return decode_struct


def _steps(table: Table, version: int, flexible: bool) -> list[_Step]:
    """Return the decoders of all fields in order, each with the function that adds its values to a list."""
    steps: list[_Step] = []
    layout = ""  # of adjacent fields of fixed length, which are unpacked together
    for name, field in table.items():
        type_, skipped = _in_version(field, version), name.startswith("_")
        if isinstance(type_, Fixed):
            layout += f"{struct.calcsize(type_.value)}x" if skipped else type_.value
            continue
        if layout:
            steps.append((list.extend, _fixed_decoder(layout)))
            layout = ""
        if type_ is not None:
            steps.append((_drop if skipped else list.append, decoder(type_, version, flexible=flexible)))
        elif not skipped:
            steps.append((list.append, lambda _, at: (None, at)))
    if layout:
        steps.append((list.extend, _fixed_decoder(layout)))
    return steps


def _drop(_values: list[Any], _value: Any) -> None:
    pass


def _fixed_decoder(layout: str) -> Decoder:
    fields = struct.Struct(f">{layout}")
    unpack, size = fields.unpack_from, fields.size

    def decode_fixed(data: bytes, at: int) -> tuple[Any, int]:
        return unpack(data, at), at + size

    return decode_fixed


def _variable_decoder(type_: Variable, flexible: bool) -> Decoder:
    is_text = type_ is STRING
    plain = _INT16 if is_text else _INT32
    unpack, size = plain.unpack_from, plain.size

    def decode_uuid(data: bytes, at: int) -> tuple[Any, int]:
        raw = data[at : at + 16]
        return Uuid(bytes=raw) if raw != _ZERO_UUID else None, at + 16

    def decode_text_or_bytes(data: bytes, at: int) -> tuple[Any, int]:
        if flexible:
            length, at = varint(data, at)
            end = at + length - 1
        else:
            at += size
            end = at + unpack(data, at - size)[0]
        if end < at:
            return None, at
        raw = data[at:end]
        return raw.decode(errors="replace") if is_text else raw, end  # as Java decodes invalid UTF-8

    return decode_uuid if type_ is UUID else decode_text_or_bytes


def _array_decoder(element_type: Type, version: int, flexible: bool) -> Decoder:
    element = decoder(element_type, version, flexible=flexible)
    unpack = _INT32.unpack_from

    def decode_array(data: bytes, at: int) -> tuple[Any, int]:
        if flexible:
            count, at = varint(data, at)
            count -= 1
        else:
            (count,) = unpack(data, at)
            at += 4
        if count < 0:
            return None, at
        values: list[Any] = []
        for _ in range(count):
            value, at = element(data, at)
            values.append(value)
        return values, at

    return decode_array


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Decode an unsigned varint (seven bits per byte, lowest first); return it and the position after it.

    Raises ValueError if it has more than five bytes, as ByteUtils.readUnsignedVarint.
    """
    value = data[at]
    at += 1
    if value < 0x80:
        return value, at
    value &= 0x7F
    shift = 7
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > _LAST_SHIFT:
            raise ValueError("a number of more than 5 bytes")


def skip_tags(data: bytes, at: int) -> int:
    """Return the position after the tag section at ``at``."""
    if data[at] == NO_TAGS:
        return at + 1
    count, at = varint(data, at)
    for _ in range(count):
        _, at = varint(data, at)
        size, at = varint(data, at)
        at += size
    return at
