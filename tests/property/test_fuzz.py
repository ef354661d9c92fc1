"""Some cases of every target of ``make fuzz``; each is always the same."""

from __future__ import annotations

import pytest

from tests.fuzz.cases import FuzzFailure, run_case
from tests.fuzz.targets import TARGETS, Target

CASES = 300


@pytest.mark.parametrize("name", TARGETS)
def test_random_bytes_raise_only_what_is_declared(name: str) -> None:
    for number in range(CASES):
        run_case(name, number)


@pytest.mark.parametrize("name", [name for name in TARGETS if not name.startswith(("JSON", "DER", "claims", "member"))])
def test_a_valid_encoding_is_accepted(name: str) -> None:
    target = TARGETS[name]
    accepted = 0
    for seed in target.seeds:
        try:
            target.decode(seed)
        except target.errors:
            continue
        accepted += 1
    assert accepted, "the fuzzer would test nothing"


def test_a_failure_tells_how_to_repeat_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(_: bytes) -> None:
        while True:
            pass

    monkeypatch.setitem(TARGETS, "broken", Target(decode=lambda data: data.decode(), seeds=(b"\xff" * 99,)))
    monkeypatch.setitem(TARGETS, "slow", Target(decode=slow, seeds=(b"x",)))
    with pytest.raises(FuzzFailure, match=r"(?s)broken: UnicodeDecodeError.*--target 'broken' --case 7$"):
        run_case("broken", 7)
    with pytest.raises(FuzzFailure, match=r"slow: _TooSlow: not finished after 0.2 CPU seconds"):
        run_case("slow", 0, cpu_s=0.1)
