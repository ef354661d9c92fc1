"""Interfaces that user plugins implement, and checked calls to them (docs/how-to/extending.md).

They are Java's plugin interfaces under Python names: TopicFilter, GroupFilter, ConfigPropertyFilter (KIP-382), and
ReplicationPolicy in `mm2.core.policies`. A user's class inherits from one of them. It is created without arguments and
receives its properties through ``configure``, once per flow. Its methods run on the node's event loop, so they must
not block. LoginCallbackHandler is different: it serves connections, and says how.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Protocol

from mm2.core.masking import masked


class Configurable(Protocol):
    """The method that every plugin can implement to receive its properties."""

    def configure(self, properties: Mapping[str, str]) -> None:
        """Receive the properties of the flow's connectors; called once, before any other method.

        ``A->B.key`` arrives as ``key``, and so do connector properties without a prefix. ``source.cluster.alias`` and
        ``target.cluster.alias`` are included; connection properties and passwords are not. An exception raised here
        keeps the node from starting.
        """
        return  # optional: plugins without properties do not override this method


class TopicFilter(Configurable, Protocol):
    """topic.filter.class: selects the source topics of a flow.

    Whatever it returns, internal topics and topics that would form a cycle are not replicated, and heartbeats topics
    are.
    """

    @abstractmethod
    def should_replicate_topic(self, topic: str) -> bool:
        """Return whether ``topic``, a name on the source, is replicated."""


class GroupFilter(Configurable, Protocol):
    """group.filter.class: selects the consumer groups whose offsets are translated."""

    @abstractmethod
    def should_replicate_group(self, group: str) -> bool:
        """Return whether checkpoints are written for ``group``."""


class ConfigPropertyFilter(Configurable, Protocol):
    """config.property.filter.class: selects the topic configs that are copied to remote topics."""

    @abstractmethod
    def should_replicate_config_property(self, name: str) -> bool:
        """Return whether the topic config ``name``, such as retention.ms, is copied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthBearerToken:
    """A token of a `LoginCallbackHandler`. ``expires_at_ms`` is milliseconds since the epoch, as in Java's
    OAuthBearerToken. ``principal_name`` is used in messages only. ``extensions`` are SASL extensions."""

    value: str = field(repr=False)
    expires_at_ms: int
    principal_name: str = ""
    extensions: Mapping[str, str] = field(default_factory=dict)


class LoginCallbackHandler(Protocol):
    """sasl.login.callback.handler.class: obtains the tokens of a client (sasl.mechanism = OAUTHBEARER).

    It is created without arguments, once per login and process: on the node and in each lane, so it must be possible to
    import it there too. Its methods run in a thread and may block; it is never called by two threads at once.
    """

    def configure(self, properties: Mapping[str, str], options: Mapping[str, str]) -> None:
        """Receive the client's ``sasl.`` properties, and the options of the login module in sasl.jaas.config; called
        once, before any other method."""
        return  # optional: handlers without properties do not override this method

    @abstractmethod
    def token(self) -> OAuthBearerToken:
        """Return a new token. An exception is reported, and the call is repeated after sasl.login.retry.backoff.ms. The
        token is renewed before it expires, by sasl.login.refresh.*."""


class PluginError(Exception):
    """A plugin raised an exception or returned an invalid value, or a regular expression takes too long.

    ``str`` of this error is the message to show. A later call can succeed, so only the topic or group of this call is
    affected.
    """


class Plugin:
    """One plugin object; every failed call to it raises PluginError and nothing else."""

    def __init__(self, name: str, instance: object) -> None:
        """``name``: property and value in the file, ``topic.filter.class my.module:MyFilter``."""
        self.name = name
        self._instance = instance

    def ask(self, method: str, *arguments: str) -> object:
        """Return the result of ``method``. Raises PluginError."""
        try:
            answer: object = getattr(self._instance, method)(*arguments)
        except (Exception, SystemExit) as error:
            raise PluginError(f"{self._call(method, *arguments)} raised {described(error)}") from error
        return answer

    def ask_whether(self, method: str, *arguments: str) -> bool:
        """Return the result of a method that returns True or False. Raises PluginError."""
        answer = self.ask(method, *arguments)
        if not isinstance(answer, bool):
            raise self.wrong(answer, "not True or False", method, *arguments)
        return answer

    def wrong(self, answer: object, rule: str, method: str, *arguments: str) -> PluginError:
        """Return the error for an invalid ``answer``; ``rule`` is the reason, such as "not True or False"."""
        return PluginError(f"{self._call(method, *arguments)} returned {_shortened(masked(repr(answer)))}, {rule}")

    def _call(self, method: str, *arguments: str) -> str:
        return f"{self.name}: {method}({', '.join(map(repr, arguments))})"


def described(error: BaseException) -> str:
    """Describe an exception of a plugin: its class, its message, and the last line of the user's code in its trace.

    The class knows its settings, so the message can contain secrets, which are masked: statuses show it, too.
    """
    where, trace = "", error.__traceback__
    while trace is not None:
        if not str(trace.tb_frame.f_globals.get("__name__")).startswith(("mm2.", "importlib")):
            where = f" ({PurePath(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno})"
        trace = trace.tb_next
    words = " ".join(masked(str(error)).split())
    return _shortened(f"{type(error).__name__}{f': {words}' if words else ''}") + where


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…"


LONGEST_TEXT = 200
"""Characters of a plugin's error that a message shows, so that it fits into tables and pages."""
