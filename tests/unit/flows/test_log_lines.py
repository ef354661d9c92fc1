from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from flows import log_lines
from mm2.core.naming.names import TopicPartition

NAMES = ("", "mm2", "flows", "flows.source", "py4j")


@pytest.fixture(autouse=True)
def restore_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, levels = root.handlers[:], {name: logging.getLogger(name).level for name in NAMES}
    yield
    log_lines.set_levels({})
    root.handlers[:] = handlers
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def test_a_line_has_its_fields_and_its_traceback() -> None:
    try:
        int("x")
    except ValueError as error:
        info = (ValueError, error, error.__traceback__)
    record = logging.LogRecord("flows.x", logging.ERROR, "f", 1, "%s failed", (TopicPartition("orders", 1),), info)
    first, *others = log_lines.RelayedLines().format(record).splitlines()
    assert first == 'ERROR flows.x {"topic":"orders","partition":1} orders-1 failed'
    assert others[-1].startswith("ValueError: invalid literal")


def test_levels_follow_the_orders_of_the_node() -> None:
    log_lines.set_up()
    fetcher, node = logging.getLogger("flows.source"), logging.getLogger("mm2")
    assert not fetcher.isEnabledFor(logging.DEBUG)
    log_lines.set_levels({"mm2": "WARNING", "flows": "WARNING", "flows.source": "DEBUG"})
    assert fetcher.isEnabledFor(logging.DEBUG)
    assert not node.isEnabledFor(logging.INFO)
    log_lines.set_levels({"mm2": "INFO"})
    assert fetcher.isEnabledFor(logging.INFO)
    assert not fetcher.isEnabledFor(logging.DEBUG)
    assert node.isEnabledFor(logging.INFO)
