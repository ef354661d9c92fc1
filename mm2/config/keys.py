"""How a key of the file is declared: once, on the pydantic model it is read into.

From these declarations come typing, defaults, "did you mean" and docs/configuration.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo

from mm2.config.java_types import JavaType
from mm2.config.problems import ProblemLog
from mm2.config.reach import Reach
from mm2.config.secrets import is_secret
from mm2.config.values import Value


class KeyModel(BaseModel):
    """A group of keys that are read together. Keys of the file are the fields' aliases."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


AnyModel = TypeVar("AnyModel", bound=KeyModel)


def key(
    name: str, default: object, doc: str, *, reach: Reach, local: bool = False, later: str = "", idle: str = "false"
) -> Any:
    """A field that is read from ``name``. ``reach``: what it takes to follow a change of it. ``local``: nodes of a flow
    may well differ in it, as in addresses, racks and paths. ``later``: what brings it into force, empty when it is in
    force today; the value ``idle`` asks for nothing of that."""
    return Field(
        default=default,
        alias=name,
        description=doc,
        repr=not is_secret(name, ""),
        json_schema_extra={"reach": reach.name, "local": local, "later": later, "idle": idle},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySpec:
    """What is known about one key. ``default`` is written as in the file; None: there is none."""

    name: str
    field: str
    java_type: str
    default: str | None
    doc: str
    reach: Reach
    local: bool
    later: str
    idle: str


@cache
def specs(model: type[KeyModel]) -> tuple[KeySpec, ...]:
    """The keys a model is read from, in the order of their declaration."""
    return tuple(_spec(field, info) for field, info in model.model_fields.items())


def names(*models: type[KeyModel]) -> frozenset[str]:
    """The names of all keys of ``models``."""
    return frozenset(spec.name for model in models for spec in specs(model))


def _spec(field: str, info: FieldInfo) -> KeySpec:
    extra = info.json_schema_extra
    assert isinstance(extra, Mapping)
    assert info.alias is not None
    assert info.description is not None
    java_type = next(note.name for note in info.metadata if isinstance(note, JavaType))
    return KeySpec(
        name=info.alias,
        field=field,
        java_type=java_type,
        default=as_text(info.default),
        doc=info.description,
        reach=Reach[str(extra["reach"])],
        local=bool(extra["local"]),
        later=str(extra["later"]),
        idle=str(extra["idle"]),
    )


def as_text(value: object) -> str | None:
    """A typed value as one would write it in the file."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ", ".join(value)
    return str(value)


def read(model: type[AnyModel], properties: Mapping[str, Value], problems: ProblemLog) -> AnyModel:
    """Type what ``properties`` say about the keys of ``model``. A value that cannot be is told to ``problems`` and
    replaced by its default, so that everything else can be looked at too."""
    known = {spec.name: spec for spec in specs(model)}
    texts = {name: properties[name].text for name in known if name in properties}
    try:
        return model.model_validate(texts)
    except ValidationError as error:
        for name, rule in _rules(error):
            properties[name].refuse(problems, f"{rule}. {_repair(known[name])}")
            del texts[name]
        return model.model_validate(texts)


def _rules(error: ValidationError) -> Iterable[tuple[str, str]]:
    for detail in error.errors():
        yield str(detail["loc"][0]), str(detail["ctx"]["rule"])


def _repair(spec: KeySpec) -> str:
    if not spec.default:
        return "Correct the line, or remove it."
    return f"Remove the line for the default ({spec.default})."
