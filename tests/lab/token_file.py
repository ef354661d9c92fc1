"""A file with a token that is replaced all the time, as Kubernetes does with the tokens of service accounts."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from tests.lab import scratch
from tests.lab.background_thread import BackgroundThread
from tests.lab.identity_provider import IdentityProvider


class TokenFile(BackgroundThread):
    """Writes a new token of ``user`` every ``every`` seconds while the block runs. Tokens last for ``lifetime``."""

    def __init__(self, provider: IdentityProvider, user: str, *, lifetime: float, every: float) -> None:
        self.path = scratch.directory("token") / "token"
        self._provider, self._user, self._lifetime, self._every = provider, user, lifetime, every
        self.replaced = 0
        super().__init__("token file")

    def __enter__(self) -> Self:
        self._write()
        return super().__enter__()

    def _run(self) -> None:
        while not self._stopping.wait(self._every):
            self._write()

    def _write(self) -> None:
        part = Path(f"{self.path}.new")
        part.write_text(self._provider.token(self._user, lifetime=self._lifetime))
        part.rename(self.path)
        self.replaced += 1
