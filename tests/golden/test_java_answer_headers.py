"""response.http.headers.config as Java 4.3.1 reads it and carries it out (java/RestVectors.java asked it)."""

from __future__ import annotations

from typing import Any

import pytest

from mm2.core.answer_headers import AnswerHeadersError, HeaderRule, read_header_rules
from tests.golden.vectors import java_vectors

OURS = {
    # Java reads the action in any case, and then takes one not written setDate for set
    "setdate Expires: 3600000": [["setDateHeader", "Expires", "3600"]],
    # Java accepts it, and no answer comes through
    "\tset\tX-A: b": [["setHeader", "X-A", "b"]],
    "setDate Expires: soon": None,
    # no header of HTTP
    'set "X-A: b"': None,
}


def call(rule: HeaderRule) -> list[str]:
    word = "add" if rule.adds else "set"
    if rule.date_in_ms is None:
        return [f"{word}Header", rule.name, rule.value]
    return [f"{word}DateHeader", rule.name, str(round(rule.date_in_ms / 1000))]


@pytest.mark.parametrize("vector", java_vectors("answer-headers"), ids=lambda vector: repr(vector["rules"]))
def test_the_same_rules(vector: dict[str, Any]) -> None:
    text = vector["rules"]
    java = OURS.get(text, vector["calls"])
    if java is None:
        with pytest.raises(AnswerHeadersError, match=r"^must "):
            read_header_rules(text)
    else:
        assert [call(rule) for rule in read_header_rules(text)] == java
