"""Classes that users write: what MirrorMaker asks them, and what becomes of an answer that is none (docs/extending.md).

They are Java's plugin interfaces under Python names: TopicFilter, GroupFilter, ConfigPropertyFilter (KIP-382), and
ReplicationPolicy in `mm2.core.policies`. A user's class inherits from them and is made without arguments, then told its
properties by ``configure``, once for each flow. It is asked on the node's event loop, so it must answer at once.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import PurePath
from typing import Protocol


class Configurable(Protocol):
    """What all of them may have."""

    def configure(self, properties: Mapping[str, str]) -> None:
        """Called once, before anything is asked, with what the file says to the flow's connectors: ``A->B.key`` as
        ``key``, and keys of connectors that stand alone. ``source.cluster.alias`` and ``target.cluster.alias`` are
        among them; connections and passwords are not. What it raises keeps the node from starting."""
        return  # who needs no properties says nothing


class TopicFilter(Configurable, Protocol):
    """topic.filter.class: chooses the source topics of a flow. Internal topics and copies that would go round are left
    out whatever it answers, and heartbeats topics go along."""

    @abstractmethod
    def should_replicate_topic(self, topic: str) -> bool:
        """Whether ``topic``, a name on the source, is replicated."""


class GroupFilter(Configurable, Protocol):
    """group.filter.class: chooses the consumer groups whose offsets are translated."""

    @abstractmethod
    def should_replicate_group(self, group: str) -> bool:
        """Whether checkpoints are written for ``group``."""


class ConfigPropertyFilter(Configurable, Protocol):
    """config.property.filter.class: chooses the topic settings that remote topics get."""

    @abstractmethod
    def should_replicate_config_property(self, name: str) -> bool:
        """Whether the topic setting ``name``, such as retention.ms, is copied."""


class PluginError(Exception):
    """A user's class raised, or answered what cannot be; as a text, the sentence to show. Asking again may help: it is
    no reason to end anything but what was asked about."""


class Plugin:
    """One object of a user's class, asked so that nothing but a PluginError comes out of it."""

    def __init__(self, name: str, instance: object) -> None:
        """``name``: key and value in the file, ``topic.filter.class my.module:MyFilter``."""
        self.name = name
        self._instance = instance

    def ask(self, method: str, *arguments: str) -> object:
        """What ``method`` answers. Raises PluginError."""
        try:
            answer: object = getattr(self._instance, method)(*arguments)
        except (Exception, SystemExit) as error:
            raise PluginError(f"{self._call(method, *arguments)} raised {described(error)}") from error
        return answer

    def ask_whether(self, method: str, *arguments: str) -> bool:
        """The same for methods that answer True or False."""
        answer = self.ask(method, *arguments)
        if not isinstance(answer, bool):
            raise self.wrong(answer, "not True or False", method, *arguments)
        return answer

    def wrong(self, answer: object, rule: str, method: str, *arguments: str) -> PluginError:
        """The error for an ``answer`` that cannot be; ``rule`` says why, "not True or False"."""
        return PluginError(f"{self._call(method, *arguments)} answered {_shortened(repr(answer))}, {rule}")

    def _call(self, method: str, *arguments: str) -> str:
        return f"{self.name}: {method}({', '.join(map(repr, arguments))})"


def described(error: BaseException) -> str:
    """An exception of a user's code: its class, what it says, and the last line of it that is not ours."""
    where, trace = "", error.__traceback__
    while trace is not None:
        if not str(trace.tb_frame.f_globals.get("__name__")).startswith(("mm2.", "importlib")):
            where = f" ({PurePath(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno})"
        trace = trace.tb_next
    words = " ".join(str(error).split())
    return _shortened(f"{type(error).__name__}{f': {words}' if words else ''}") + where


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…"


LONGEST_TEXT = 200
"""Characters of a user's error that a sentence shows: it stands in tables and on pages."""
