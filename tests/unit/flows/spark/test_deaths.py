"""Why a JVM has ended, by its exit code or by what Spark says about an executor."""

from __future__ import annotations

import pytest

from flows.spark.deaths import jvm_death, lane_death

MEMORY = "spark.driver.memory = 1g"


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (3, f"Java ran out of memory ({MEMORY})"),
        (52, f"Java ran out of memory ({MEMORY})"),
        (-9, f"Java was ended by SIGKILL, possibly as the machine ran out of memory ({MEMORY})"),
        (137, f"Java was ended by SIGKILL, possibly as the machine ran out of memory ({MEMORY})"),
        (-6, "Java was ended by SIGABRT"),
        (139, "Java was ended by SIGSEGV"),
        (1, "Java exited with code 1"),
        (255, "Java exited with code 255"),
    ],
)
def test_exit_codes(code: int, why: str) -> None:
    assert jvm_death(code, MEMORY) == why


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (
            "ExecutorLostFailure (executor 0 exited caused by one of the running tasks) Reason: Command exited with"
            " code 52",
            f"Java ran out of memory ({MEMORY})",
        ),
        ("Container from a bad node: container_1. Exit status: 143. Diagnostics: killed", "Java was ended by SIGTERM"),
        ("The executor with id 1 exited with exit code 3(unexpected)", f"Java ran out of memory ({MEMORY})"),
        ("Job aborted\njava.lang.OutOfMemoryError: Java heap space\n\tat x", f"Java ran out of memory ({MEMORY})"),
        ("\nCaused by: java.lang.StackOverflowError\n", "Java's stack overflowed (java.lang.StackOverflowError)"),
        ("QueryFailed: the query has returned nothing for 15 s; it is at t-0 offset 3", None),
    ],
)
def test_errors_of_lanes(error: str, why: str | None) -> None:
    assert lane_death(error, MEMORY) == why
