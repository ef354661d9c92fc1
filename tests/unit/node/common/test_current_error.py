"""How often, and at which level, the error of an activity is logged."""

from __future__ import annotations

import logging

import pytest

from mm2.core.naming.names import Flow
from mm2.kafka.errors import BrokerError, Unreachable
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.node.common.current_error import CurrentError

log = logging.getLogger(__name__)

MISSING = BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "read topic x")
DENIED = BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "read topic x")


def levels(
    caplog: pytest.LogCaptureFixture, *reports: tuple[float, BaseException | None], level: int = logging.WARNING
) -> list[tuple[str, str]]:
    """Report these errors at these seconds (None: it works); return the level and text of each line."""
    caplog.set_level(logging.INFO)
    clock = {"now": 0.0}
    error = CurrentError(log, Flow("A", "B"), level=level, clock=lambda: clock["now"])
    for clock["now"], cause in reports:
        if cause is None:
            error.clear()
        else:
            error.report(str(cause), cause)
            error.hide()
    return [(record.levelname, record.getMessage().removeprefix("A->B: ")) for record in caplog.records]


def test_a_topic_that_does_not_exist_yet_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    found = levels(caplog, (0.0, MISSING), (1.0, MISSING), (29.0, MISSING), (31.0, None), (32.0, MISSING))
    assert found == [("INFO", str(MISSING))] * 2


def test_it_is_one_after_half_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    found = levels(caplog, (0.0, MISSING), (29.9, MISSING), (30.0, MISSING), (60.0, MISSING))
    assert found == [("INFO", str(MISSING)), ("WARNING", str(MISSING))]


@pytest.mark.parametrize("cause", [DENIED, Unreachable("no broker")])
def test_other_errors_are_warnings_at_once(cause: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    found = levels(caplog, (0.0, MISSING), (1.0, cause), (2.0, cause), (3.0, MISSING))
    assert found == [("INFO", str(MISSING)), ("WARNING", str(cause)), ("INFO", str(MISSING))]


def test_other_levels_are_kept(caplog: pytest.LogCaptureFixture) -> None:
    assert levels(caplog, (0.0, MISSING), level=logging.ERROR) == [("ERROR", str(MISSING))]
