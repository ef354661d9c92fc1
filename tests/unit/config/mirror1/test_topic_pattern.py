"""Lists of topics as Kafka's TopicFilter reads them (kafka: TopicFilterTest)."""

from __future__ import annotations

import pytest

from mm2.config.mirror1.load import topic_pattern
from mm2.config.regex.java_characters import JavaRegexError


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("white1,white2", "white1|white2"),
        (" a , b.* \n", "a|b.*"),
        ("'orders.*'", "orders.*"),
        ("\"'a|b'\"", "a|b"),
        ("it's", "it's"),
        (".+", ".+"),
        ("(?!test-).*", "(?!test-).*"),
    ],
)
def test_pattern(text: str, pattern: str) -> None:
    assert topic_pattern(text) == pattern


@pytest.mark.parametrize(
    ("text", "rule", "fix"),
    [
        ("*", "is not a valid Java regular expression: nothing to repeat before *", "write .*"),
        ("a(", "is not a valid Java regular expression: unterminated group", "add the missing )"),
        (" ''", "is empty, so it matches no topic", "write .* to match all topics"),
    ],
)
def test_invalid_pattern(text: str, rule: str, fix: str) -> None:
    with pytest.raises(JavaRegexError) as caught:
        topic_pattern(text)
    assert str(caught.value).startswith(rule)
    assert caught.value.fix.startswith(fix)
