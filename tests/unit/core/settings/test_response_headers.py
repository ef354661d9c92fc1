from __future__ import annotations

import pytest

from mm2.core.settings.response_headers import HeaderRule, ResponseHeadersError, read_header_rules


def test_rules_are_applied_in_order() -> None:
    assert read_header_rules('set X-Frame-Options: DENY, "add X-A: a, \\"b\\"", addDate Expires: -1000') == (
        HeaderRule(name="X-Frame-Options", value="DENY"),
        HeaderRule(name="X-A", value='a, "b"', adds=True),
        HeaderRule(name="Expires", adds=True, date_in_ms=-1000),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("X-Frame-Options: DENY", "start with set, add, setDate, addDate"),
        ("set", "'set' is not a rule"),
        ("set X-A", "a name, one colon and a value"),
        ("set X A: b", "'X A' is not valid"),
        ("set X-A: b\r\nX-B: c", "one colon"),
        ("set X-A: b\nc", "the value of X-A has others"),
        ("set X-A: \N{EURO SIGN}", "the value of X-A has others"),
        ("setDate Expires: soon", "'soon' is not a number"),
        (f"setDate Expires: {'9' * 14}", "is not a number"),
    ],
)
def test_invalid_rules(text: str, message: str) -> None:
    with pytest.raises(ResponseHeadersError, match=message):
        read_header_rules(text)
