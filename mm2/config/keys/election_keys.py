"""The key for leader election, and the keys of the backends in `mm2.core.settings.election`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from pkgutil import resolve_name
from typing import Annotated

from pydantic import AfterValidator

from mm2.config.grammar.java_types import String, one_of_words, refuse
from mm2.config.grammar.problems import ProblemLog
from mm2.config.grammar.values import Properties
from mm2.config.keys import declaration
from mm2.config.keys.declaration import KeyModel, key
from mm2.config.keys.update_mode import UpdateMode
from mm2.config.settings import FlowSettings
from mm2.core.naming.names import Flow
from mm2.core.settings.election import BACKENDS, KAFKA, ElectionSettings

ELECTION = "mm2.election"

FlowElection = Callable[[Flow, int], ElectionSettings]
"""Returns the election settings of a flow, given the flow and its heartbeat.interval.ms."""


class BackendKeys(KeyModel):
    """Keys of one backend."""

    @abstractmethod
    def elections(self, properties: Properties, problems: ProblemLog) -> FlowElection | None:
        """Return the factory of each flow's settings, or None after an error. Checks that the keys fit together."""


def _known(name: str) -> str:
    if name != KAFKA and name not in BACKENDS:
        words = one_of_words((KAFKA, *BACKENDS))
        raise refuse(f"must be {words}", f"write {words}")
    return name


class ElectionKeys(KeyModel):
    """The choice of the backend; Java ignores it."""

    election: Annotated[String, AfterValidator(_known)] = key(
        ELECTION,
        KAFKA,
        "Backend for leader election: `kafka` (the flow's group), or `zookeeper`.",
        update_mode=UpdateMode.NODE,
    )


def election_models() -> tuple[type[KeyModel], ...]:
    """Return the models of all election keys."""
    return (ElectionKeys, *(_backend_keys(name) for name in BACKENDS))


def read_elections(
    flows: tuple[FlowSettings, ...], properties: Properties, problems: ProblemLog
) -> tuple[FlowSettings, ...]:
    """Return the flows with their election settings; errors go to ``problems``."""
    chosen = declaration.read(ElectionKeys, properties, problems).election
    _check_unused(chosen, properties, problems)
    if chosen == KAFKA:
        return flows
    make = declaration.read(_backend_keys(chosen), properties, problems).elections(properties, problems)
    if make is None:
        return flows
    return tuple(replace(flow, election=make(flow.flow, flow.worker.heartbeat_interval_ms)) for flow in flows)


def given(properties: Properties, *names: str) -> list[str]:
    """Return those of ``names`` that have a value in the file."""
    return [name for name in names if name in properties and properties[name].text.strip()]


def _backend_keys(name: str) -> type[BackendKeys]:
    found: type[BackendKeys] = resolve_name(BACKENDS[name].keys)
    return found


def _check_unused(chosen: str, properties: Properties, problems: ProblemLog) -> None:
    if ELECTION in properties and properties[ELECTION].text.strip() != chosen:
        return  # an invalid choice is reported already
    for backend in BACKENDS.keys() - {chosen}:
        for name in given(properties, *sorted(declaration.names(_backend_keys(backend)))):
            properties[name].warn(
                problems,
                f"has no effect: {ELECTION} is {chosen}",
                f"add {ELECTION} = {backend}, or remove the line",
            )
