"""response.http.headers.config, compared with vectors of Java 4.3.1 (java/RestVectors.java)."""

from __future__ import annotations

from typing import Any

import pytest

from mm2.core.settings.response_headers import HeaderRule, ResponseHeadersError, read_header_rules
from tests.golden.vectors import java_vectors

OURS = {
    # Java ignores the case of the action, but treats other spellings of setDate as set
    "setdate Expires: 3600000": [["setDateHeader", "Expires", "3600"]],
    # Java accepts it, and every response fails
    "\tset\tX-A: b": [["setHeader", "X-A", "b"]],
    "setDate Expires: soon": None,
    # not a valid HTTP header name
    'set "X-A: b"': None,
}


def call(rule: HeaderRule) -> list[str]:
    word = "add" if rule.adds else "set"
    if rule.date_in_ms is None:
        return [f"{word}Header", rule.name, rule.value]
    return [f"{word}DateHeader", rule.name, str(round(rule.date_in_ms / 1000))]


@pytest.mark.parametrize("vector", java_vectors("answer-headers"), ids=lambda vector: repr(vector["rules"]))
def test_same_rules_as_java(vector: dict[str, Any]) -> None:
    text = vector["rules"]
    java = OURS.get(text, vector["calls"])
    if java is None:
        with pytest.raises(ResponseHeadersError, match=r"^must "):
            read_header_rules(text)
    else:
        assert [call(rule) for rule in read_header_rules(text)] == java
