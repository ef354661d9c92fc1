"""The login of a client whose keytab, token or other file cannot be read."""

from __future__ import annotations

from dataclasses import dataclass

from mm2.core.settings.sasl import UnusableLogin
from mm2.kafka.sasl.login import Exchange, LoginFailed


@dataclass(frozen=True, slots=True)
class NoLogin:
    """A `Login` that always fails, with the reason of its settings. New settings follow the change of the file."""

    settings: UnusableLogin

    @property
    def is_due(self) -> bool:
        return True

    def renew(self) -> None:
        raise LoginFailed(self.settings.reason, self.settings.key)

    def exchange(self, host: str) -> Exchange:
        raise LoginFailed(self.settings.reason, self.settings.key)
