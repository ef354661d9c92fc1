"""Tests of the judgement of a soak: what grows is found, what varies is not."""

from __future__ import annotations

import pytest

from tests.lab.usage import ROLES, Usage, growth


def samples(values: list[Usage]) -> list[dict[str, Usage]]:
    calm = Usage(megabytes=100, files=50, threads=20)
    return [dict.fromkeys(ROLES, calm) | {"jvm": one} for one in values]


def test_warm_up_and_single_peaks_are_no_growth() -> None:
    warm_up = [Usage(megabytes=50 + 10 * n, files=10, threads=5) for n in range(25)]
    flat = [Usage(megabytes=900 if n % 10 == 5 else 300, files=60, threads=30) for n in range(75)]
    assert growth(samples(warm_up + flat)) == []


def test_slow_leaks_of_memory_files_and_threads_are_found() -> None:
    for leak in ({"megabytes": 4.0}, {"files": 0.3}, {"threads": 0.3}):
        steps = [
            Usage(
                megabytes=300 + n * leak.get("megabytes", 0),
                files=60 + n * leak.get("files", 0),
                threads=30 + n * leak.get("threads", 0),
            )
            for n in range(100)
        ]
        (found,) = growth(samples(steps))
        assert found.startswith("jvm: ")


def test_too_few_samples_are_an_error() -> None:
    with pytest.raises(ValueError, match="at least 12"):
        growth(samples([Usage(megabytes=1, files=1, threads=1)] * 10))
