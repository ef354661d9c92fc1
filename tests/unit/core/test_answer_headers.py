from __future__ import annotations

import pytest

from mm2.core.answer_headers import AnswerHeadersError, HeaderRule, read_header_rules


def test_rules_in_their_order() -> None:
    assert read_header_rules('set X-Frame-Options: DENY, "add X-A: a, \\"b\\"", addDate Expires: -1000') == (
        HeaderRule(name="X-Frame-Options", value="DENY"),
        HeaderRule(name="X-A", value='a, "b"', adds=True),
        HeaderRule(name="Expires", adds=True, date_in_ms=-1000),
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("X-Frame-Options: DENY", "begin with set, add, setDate, addDate"),
        ("set", "'set' is none"),
        ("set X-A", "a name, one colon and a value"),
        ("set X A: b", "'X A' cannot be one"),
        ("set X-A: b\r\nX-B: c", "one colon"),
        ("set X-A: b\nc", "that of X-A has others"),
        ("set X-A: \N{EURO SIGN}", "that of X-A has others"),
        ("setDate Expires: soon", "'soon' is no number"),
        (f"setDate Expires: {'9' * 14}", "is no number"),
    ],
)
def test_what_is_no_rule(text: str, sentence: str) -> None:
    with pytest.raises(AnswerHeadersError, match=sentence):
        read_header_rules(text)
