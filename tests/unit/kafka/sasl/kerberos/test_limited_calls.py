from __future__ import annotations

import threading
import time

import pytest

from mm2.kafka.sasl.kerberos.gss_errors import KerberosError
from mm2.kafka.sasl.kerberos.limited_calls import LimitedCalls


def test_results_and_errors() -> None:
    calls = LimitedCalls(10.0, 1, "alice@A")
    assert [calls(lambda: 1), calls(lambda: 2)] == [1, 2]
    with pytest.raises(ZeroDivisionError):
        calls(lambda: 1 / 0)
    assert calls(lambda: 3) == 3


def test_a_silent_kdc() -> None:
    calls, answers = LimitedCalls(0.05, 2, "alice@A"), threading.Event()
    for _ in range(2):
        with pytest.raises(KerberosError, match=r"no KDC answers for alice@A within 0\.05 s"):
            calls(answers.wait)
    with pytest.raises(KerberosError, match="no KDC answers"):
        calls(lambda: pytest.fail("a third call waits"))
    answers.set()


def test_calls_that_have_the_time_of_one() -> None:
    calls, answers = LimitedCalls(1.0, 2, "alice@A"), threading.Event()
    limited, began = calls.together(), time.monotonic()
    limited(lambda: time.sleep(0.7))
    with pytest.raises(KerberosError, match="no KDC answers for alice@A within 1 s"):
        limited(answers.wait)
    assert time.monotonic() - began < 1.5
    assert calls.together()(lambda: 1) == 1
    answers.set()
