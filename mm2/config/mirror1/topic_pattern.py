"""Topics as MirrorMaker 1 selects them: one Java regular expression, in a form that allows lists."""

from __future__ import annotations

import re

from mm2.config.regex.java_characters import JavaRegexError
from mm2.config.regex.java_regex import compile_java

_QUOTES = re.compile(r"\A[\"']+|[\"']+\Z")


def topic_pattern(text: str) -> str:
    """Return the Java regular expression that ``text`` stands for; it has to match whole topic names.

    Whitespace around it is removed, commas separate alternatives, blanks have no meaning, and quotes at both ends are
    removed, as properties files may contain them (Kafka: TopicFilter, IncludeList). Raises JavaRegexError.
    """
    pattern = _QUOTES.sub("", text.strip().replace(",", "|").replace(" ", ""))
    if not pattern:
        raise JavaRegexError("is empty, so it matches no topic", "write .* to match all topics")
    compile_java(pattern)
    return pattern
