"""Declarations of the file's keys, as fields of the pydantic models they are read into.

Types, defaults, "did you mean" and docs/reference/configuration.md are derived from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, partial
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo

from mm2.config.grammar.comments import comment_fix, no_comment
from mm2.config.grammar.java_types import JavaType
from mm2.config.grammar.problems import ProblemLog
from mm2.config.grammar.secrets import is_secret
from mm2.config.grammar.values import Value
from mm2.config.keys.update_mode import UpdateMode


class KeyModel(BaseModel):
    """A group of keys that are read together. The keys are the aliases of the fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


AnyModel = TypeVar("AnyModel", bound=KeyModel)


def key(
    name: str,
    default: object,
    doc: str,
    *,
    update_mode: UpdateMode,
    local: bool = False,
) -> Any:
    """Return a field that is read from ``name``. ``update_mode``: what a change restarts. ``local``: the nodes of a
    flow can have different values, such as addresses, racks and paths."""
    return Field(
        default=default,
        alias=name,
        description=doc,
        repr=not is_secret(name, ""),
        json_schema_extra={"update_mode": update_mode.name, "local": local},
    )


# Named after the update mode.
idle_key = partial(key, update_mode=UpdateMode.NOTHING)
live_key = partial(key, update_mode=UpdateMode.RUNNING)
flow_key = partial(key, update_mode=UpdateMode.FLOW)
node_key = partial(key, update_mode=UpdateMode.NODE)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySpec:
    """Declaration of one key. ``default`` is written as in the file; None: no default."""

    name: str
    field: str
    java_type: str
    default: str | None
    doc: str
    update_mode: UpdateMode
    local: bool


@cache
def specs(model: type[KeyModel]) -> tuple[KeySpec, ...]:
    """Return the keys of a model in the order of their declaration."""
    return tuple(_spec(field, info) for field, info in model.model_fields.items())


def names(*models: type[KeyModel]) -> frozenset[str]:
    """Return the names of all keys of ``models``."""
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
        update_mode=UpdateMode[str(extra["update_mode"])],
        local=bool(extra["local"]),
    )


def as_text(value: object) -> str | None:
    """Return a typed value as it is written in the file."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ", ".join(value)
    return str(value)


def read(model: type[AnyModel], properties: Mapping[str, Value], problems: ProblemLog) -> AnyModel:
    """Parse the values that ``properties`` contain for the keys of ``model``. An invalid value is reported and replaced
    by its default, so that the rest can be checked too."""
    known = {spec.name: spec for spec in specs(model)}
    texts = {name: properties[name].text for name in known if name in properties}
    try:
        return model.model_validate(texts)
    except ValidationError as error:
        for name, rule, fix in _errors(error):
            _refuse(properties[name], known[name], rule, fix, problems)
            del texts[name]
        return model.model_validate(texts)


def _errors(error: ValidationError) -> Iterable[tuple[str, str, str]]:
    for detail in error.errors():
        yield str(detail["loc"][0]), str(detail["ctx"]["rule"]), str(detail["ctx"]["fix"])


def _refuse(value: Value, spec: KeySpec, rule: str, fix: str, problems: ProblemLog) -> None:
    if value.entry is not None and (comment := comment_fix(value.entry)):
        if spec.java_type == "BOOLEAN":
            comment = f"move the comment to its own line, and {_fix(value, spec)}"
        value.refuse(problems, f"{rule} ({no_comment(value.entry)})", comment)
    else:
        value.refuse(problems, rule, fix or _fix(value, spec))


def _fix(value: Value, spec: KeySpec) -> str:
    if spec.java_type != "BOOLEAN" or value.entry is None:
        return default_fix(spec.default)
    meant = _meant_boolean(value.text)
    if meant is None:
        return f"write {value.entry.key} = true or {value.entry.key} = false"
    return f"write {value.entry.key} = {meant}" + (f", or {default_fix(meant)}" if meant == spec.default else "")


_MEANT_BOOLEANS = {
    **dict.fromkeys(("1", "active", "enable", "enabled", "on", "t", "true", "y", "yes"), "true"),
    **dict.fromkeys(("0", "disable", "disabled", "f", "false", "n", "no", "none", "off"), "false"),
}
"""Other words for true and false. A fix must not propose the opposite of what was meant."""


def _meant_boolean(text: str) -> str | None:
    words = text.strip("\"' \t\n;,.").lower().split() or [""]
    if words[0] in _MEANT_BOOLEANS:
        return _MEANT_BOOLEANS[words[0]]
    close = get_close_matches(words[0], ("true", "false"), n=1, cutoff=0.75)
    return close[0] if close else None


def default_fix(default: str | None) -> str:
    """Return the fix of an invalid value: to use the default, if there is one."""
    return f"remove the line to use the default ({default})" if default else "correct the value, or remove the line"
