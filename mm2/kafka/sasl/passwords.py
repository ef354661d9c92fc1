"""PLAIN and SCRAM: user and password. The messages of SCRAM are aiokafka's."""

from __future__ import annotations

from dataclasses import dataclass

from aiokafka.conn import ScramAuthenticator

from mm2.core.settings.sasl import PasswordLogin, SaslMechanism
from mm2.kafka.sasl.login import Exchange

MIN_ITERATIONS = 4096
"""Kafka's minimum (ScramMechanism). A broker that asks for fewer would make the password easy to guess."""

MAX_ITERATIONS = 1_000_000
"""About a second of CPU for a password. A broker that asks for more would keep its clients busy; Kafka's own tools
allow 16,384."""


@dataclass(frozen=True, slots=True)
class PasswordExchanges:
    """The login of a user with a password, which does not expire."""

    login: PasswordLogin

    @property
    def is_due(self) -> bool:
        return False

    def renew(self) -> None:
        """Do nothing."""

    def exchange(self, host: str) -> Exchange:
        return _plain(self.login) if self.login.mechanism is SaslMechanism.PLAIN else _scram(self.login)


def _plain(login: PasswordLogin) -> Exchange:
    answer = yield f"\0{login.username}\0{login.password}".encode()  # RFC 4616, without an authorization id, as in Java
    if answer:
        raise ValueError("the broker answered PLAIN with a challenge")


def _scram(login: PasswordLogin) -> Exchange:
    scram = _Scram(login)
    server_first = yield scram.first_message().encode()
    scram.process_server_first_message(_text(server_first))
    server_final = yield scram.final_message().encode()
    scram.process_server_final_message(_text(server_final))


def _text(message: bytes) -> str:
    """Return a message of the broker. An error (``e=…``, RFC 5802) is raised as ValueError."""
    text = message.decode()
    if text.startswith("e="):
        raise ValueError(f"the broker answered: {text.removeprefix('e=')}")
    return text


class _Scram(ScramAuthenticator):  # type: ignore[misc]
    """One exchange, with limits for the iterations."""

    def __init__(self, login: PasswordLogin) -> None:
        super().__init__(
            loop=None,
            sasl_plain_username=login.username,
            sasl_plain_password=login.password,
            sasl_mechanism=str(login.mechanism),
        )
        self._token_auth = login.token_auth

    def first_message(self) -> str:
        header, bare = "n,,", str(super().first_message()).removeprefix("n,,")
        if self._token_auth:
            bare += ",tokenauth=true"  # Kafka's ScramExtensions
            self._auth_message = bare
        return header + bare

    def create_salted_password(self, salt: bytes, iterations: int) -> None:
        if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
            raise ValueError(
                f"the broker asks for {iterations} SCRAM iterations; allowed are {MIN_ITERATIONS} to {MAX_ITERATIONS}"
            )
        super().create_salted_password(salt, iterations)
