from __future__ import annotations

import json

import pytest

from mm2.config.security.tls.formats.key_store import Identity, KeyEntry, in_order_of_java
from tests.unit.config.security.tls.formats.golden import content

CHOICES: dict[str, str] = json.loads(content("chosen-aliases.json"))
"""What Java's key manager chose from stores with these aliases."""


@pytest.mark.parametrize("aliases", CHOICES)
def test_first_choice_of_java(aliases: str) -> None:
    identity = Identity(key=b"", chain=())
    entries = [
        KeyEntry(alias=alias, certificate=None, decrypt=lambda _: identity) for alias in aliases.lower().split(",")
    ]
    assert in_order_of_java(entries)[0].alias == CHOICES[aliases]
    assert len(in_order_of_java(entries)) == len(entries)
