"""One case: a target and a number."""

from __future__ import annotations

import random
import resource
import signal
import sys
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from tests.fuzz.mutations import mutated
from tests.fuzz.targets import TARGETS

CPU_S = 2.0
"""CPU seconds of a case. The slowest takes a tenth of that."""

MEMORY_BYTES = 400_000_000
"""By which the largest resident size may grow: several times what is decompressed at most, 16 MiB."""


class FuzzFailure(AssertionError):
    """A decoder raised what it does not declare, or took too much. The message tells how to repeat it."""


class _TooSlow(BaseException):  # not an Exception: decoders must not catch it
    pass


def run_case(name: str, number: int, *, cpu_s: float = CPU_S) -> None:
    """Decode the bytes of this case. Raises FuzzFailure."""
    target = TARGETS[name]
    rng = random.Random(zlib.crc32(name.encode()) << 40 | number)
    data = target.prepare(rng, mutated(rng, target.seeds))
    before = _memory()
    begun = time.process_time()
    try:
        with _cpu_limit(2 * cpu_s):
            target.decode(data)
    except target.errors:
        pass
    except (Exception, _TooSlow) as error:
        raise FuzzFailure(_message(name, number, data, f"{type(error).__name__}: {error}")) from error
    if (took := time.process_time() - begun) > cpu_s:
        raise FuzzFailure(_message(name, number, data, f"took {took:.1f} CPU seconds"))
    if (grown := _memory() - before) > MEMORY_BYTES:
        raise FuzzFailure(_message(name, number, data, f"took {grown // 1_000_000} MB"))


def _message(name: str, number: int, data: bytes, what: str) -> str:
    return (
        f"{name}: {what:.300}\n{len(data)} bytes: {data[:60]!r}\n"
        f"repeat with: .venv/bin/python -m tests.fuzz --target '{name}' --case {number}"
    )


def _memory() -> int:
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else largest * 1024


@contextmanager
def _cpu_limit(limit: float) -> Iterator[None]:
    """End what takes longer, and is not within one call of C."""

    def stop(_: int, __: FrameType | None) -> None:
        raise _TooSlow(f"not finished after {limit:.1f} CPU seconds")

    earlier = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, limit)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, earlier)
