from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest

from mm2.core.settings.election import BACKENDS, Backend, ElectionSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ListSettings(ElectionSettings):
    """Settings of a backend whose election is a list of its arguments."""

    backend: ClassVar[str] = "list"

    @property
    def session_timeout_ms(self) -> int:
        return 10_000

    @property
    def places(self) -> tuple[str, ...]:
        return ("list here",)


def made(*arguments: object) -> list[object]:
    return list(arguments)


def test_an_election_is_made_by_its_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BACKENDS, "list", Backend(keys="unused:Keys", election=f"{__name__}:made"))
    settings = ListSettings()
    assert settings.make("member", "assign") == [settings, "member", "assign"]
    assert settings.secrets == ()
