"""Settings of exactly-once, as the data plane receives them."""

from __future__ import annotations

from pathlib import Path

from mm2.core.lanes.lease import TransactionsLease
from tests.unit.config import files

ENABLED = "B.exactly.once.source.support = enabled\nA.consumer.isolation.level = read_committed\n"


def test_when_transactions_are_committed(tmp_path: Path) -> None:
    assert files.flow(tmp_path, "B.exactly.once.source.support = preparing\n").transactions is None
    assert files.flow(tmp_path, ENABLED).transactions == TransactionsLease()
    interval = f"{ENABLED}A->B.transaction.boundary = interval\nB.producer.transaction.timeout.ms = 30000\n"
    found = files.flow(tmp_path, interval).transactions
    assert found is not None
    assert (found.interval_ms, found.max_bytes, found.timeout_ms) == (5_000, 2**63 - 1, 30_000)
    found = files.flow(tmp_path, f"{interval}A->B.transaction.boundary.interval.ms = 0\n").transactions
    assert found is not None
    assert found.interval_ms == 1


def test_only_the_line_that_disables_idempotence_is_an_error(tmp_path: Path) -> None:
    (problem,) = files.loaded(tmp_path, f"{ENABLED}B.producer.acks = 1\n").problems
    assert problem.rule == "must be all while B.exactly.once.source.support is enabled: transactions need idempotence"
