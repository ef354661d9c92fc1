from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator

import pytest

from mm2.core.log_records import about
from mm2.core.masking import hide
from mm2.core.naming.names import Flow, TopicPartition
from mm2.program.logs import SeldomRepeated, set_up


@pytest.fixture(autouse=True)
def restore_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(False)


def test_text_lines() -> None:
    stream = io.StringIO()
    set_up(stream=stream)
    logging.getLogger("mm2.node").info("A->B %s", "runs")
    logging.getLogger("mm2.node").debug("unseen")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z INFO    mm2\.node: A->B runs\n", stream.getvalue())


def test_json_lines() -> None:
    stream = io.StringIO()
    set_up(level="debug", log_format="json", stream=stream)
    try:
        int("two\nlines")
    except ValueError:
        logging.getLogger("mm2.node").exception("it failed")
    (line,) = stream.getvalue().splitlines()
    logged = json.loads(line)
    assert {key: logged[key] for key in ("level", "logger", "message")} == {
        "level": "ERROR",
        "logger": "mm2.node",
        "message": "it failed",
    }
    assert logged["exception"].endswith("ValueError: invalid literal for int() with base 10: 'two\\nlines'")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", logged["time"])


@pytest.mark.parametrize("level", ["INFO", "DEBUG"])
def test_log_levels_of_libraries(level: str) -> None:
    stream = io.StringIO()
    set_up(level=level, stream=stream)
    for name in ("aiokafka", "uvicorn.error", "py4j.clientserver", "httpx"):
        logging.getLogger(name).info("unseen")
        logging.getLogger(name).warning("seen %s", name)
    assert [line.rpartition(" ")[2] for line in stream.getvalue().splitlines()] == [
        "aiokafka",
        "uvicorn.error",
        "py4j.clientserver",
        "httpx",
    ]


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_secrets_are_masked_in_every_part_of_a_line(log_format: str) -> None:
    stream = io.StringIO()
    hide("hunter2", 'quo"ted-secret', "abc")
    set_up(log_format=log_format, stream=stream)
    try:
        int('quo"ted-secret')
    except ValueError:
        logging.getLogger("mm2.kafka").exception("password hunter2, abc")
    text = stream.getvalue()
    assert "hunter2" not in text
    assert "ted-secret" not in text
    assert "password [hidden], abc" in text  # too short: three letters occur in many words


QUOTED = "open\\sesame"


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_secret_that_a_message_quotes_is_masked(log_format: str) -> None:
    stream = io.StringIO()
    hide(QUOTED)
    set_up(log_format=log_format, stream=stream)
    logger = logging.getLogger("mm2.kafka")
    logger.warning("rejected %r, %s", {"password": QUOTED}, json.dumps(repr(QUOTED)))
    try:
        json.loads("{}")[repr(QUOTED)]  # KeyError quotes it once more
    except KeyError:
        logger.exception("rejected")
    assert "sesame" not in stream.getvalue()


HOSTILE = "\x1b[2J\x9b31m\u202egroup\r\n2026-01-31T12:00:00.123Z INFO    mm2.node: forged"


def test_no_text_looks_like_a_record_or_controls_a_terminal() -> None:
    stream = io.StringIO()
    hide("first\nsecond")
    set_up(stream=stream)
    try:
        json.loads("{}")[HOSTILE]
    except KeyError:
        logging.getLogger("mm2.node").exception("group %s, key first\nsecond", HOSTILE)
    text = stream.getvalue()
    assert all(char.isprintable() or char == "\n" for char in text)
    first, *others = text.splitlines()
    assert first.endswith(r"mm2.node: group \x1b[2J\x9b31m\u202egroup\r")
    assert all(line.startswith("    ") for line in others)
    assert "forged, key [hidden]" in others[0]


def test_json_lines_have_no_control_characters() -> None:
    stream = io.StringIO()
    set_up(log_format="json", stream=stream)
    logging.getLogger("mm2.node").info("group %s", HOSTILE)
    (line,) = stream.getvalue().splitlines()
    assert line.isprintable()
    assert json.loads(line)["message"] == f"group {HOSTILE}"


def record(name: str, message: str) -> logging.LogRecord:
    return logging.LogRecord(name, logging.ERROR, __file__, 1, message, ("x",), None)


def test_repeated_library_messages_are_limited_to_one_per_minute() -> None:
    now = 0.0
    seldom = SeldomRepeated(lambda: now)
    assert seldom.filter(record("aiokafka.conn", "unable to connect to %s"))
    assert not seldom.filter(record("aiokafka.conn", "unable to connect to %s"))
    assert seldom.filter(record("aiokafka.conn", "another message %s"))
    assert seldom.filter(record("mm2.kafka", "ours %s"))
    assert seldom.filter(record("mm2.kafka", "ours %s"))
    now = 61.0
    assert seldom.filter(record("aiokafka.conn", "unable to connect to %s"))


def test_rate_limiter_uses_bounded_memory() -> None:
    now = 0.0
    seldom = SeldomRepeated(lambda: now)
    for number in range(5_000):
        assert seldom.filter(record("library", f"message {number}"))
    assert len(seldom._said) <= 1_000
    now = 61.0
    assert seldom.filter(record("library", "message 0"))
    assert len(seldom._said) == 1


def test_json_lines_say_what_they_are_about() -> None:
    stream = io.StringIO()
    set_up(log_format="json", node="n1", stream=stream)
    log = logging.getLogger("mm2.node")
    log.warning("%s: %s", Flow("A", "B"), "lost", extra=about(partition=TopicPartition("orders", 3)))
    log.info("%s: truncated", TopicPartition("users", 0))
    log.info("draining")
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [list(line) for line in lines] == [
        ["time", "level", "logger", "node", "flow", "topic", "partition", "message"],
        ["time", "level", "logger", "node", "topic", "partition", "message"],
        ["time", "level", "logger", "node", "message"],
    ]
    assert lines[0]["node"] == "n1"
    assert (lines[0]["flow"], lines[0]["topic"], lines[0]["partition"]) == ("A->B", "orders", 3)
    assert lines[0]["message"] == "A->B: lost"


def test_levels_of_single_loggers_replace_those_of_before() -> None:
    stream = io.StringIO()
    names = ("mm2.kafka.client", "flows.source", "aiokafka.conn", "mm2.node")

    def shown() -> list[str]:
        stream.seek(0)
        stream.truncate()
        for name in names:
            logging.getLogger(name).debug("of %s", name)
        return [line.rpartition(" ")[2] for line in stream.getvalue().splitlines()]

    conn = logging.getLogger("aiokafka.conn")
    before = conn.level  # our connections set it
    conn.setLevel(logging.NOTSET)
    try:
        set_up(stream=stream, levels={"mm2.kafka": "DEBUG", "aiokafka": "DEBUG"})
        assert shown() == ["mm2.kafka.client", "aiokafka.conn"]
        set_up(stream=stream, levels={"flows": "DEBUG"})
        assert shown() == ["flows.source"]
        set_up(stream=stream)
        assert shown() == []
    finally:
        conn.setLevel(before)
