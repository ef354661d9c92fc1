from __future__ import annotations

import pytest

from mm2.node.common.restarting import RESTART_AFTER_S, restart_on_error


async def test_work_is_started_again_after_an_error_and_not_after_its_end(caplog: pytest.LogCaptureFixture) -> None:
    failures = [RuntimeError("first"), RuntimeError("second")]
    pauses: list[float] = []

    async def work() -> None:
        if failures:
            raise failures.pop(0)

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    await restart_on_error(work, "engine", sleep=sleep)
    assert pauses == [RESTART_AFTER_S] * 2
    assert [record.getMessage() for record in caplog.records] == ["engine: unexpected error; restarting in 5 s"] * 2
