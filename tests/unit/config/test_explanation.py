from __future__ import annotations

from pathlib import Path

import pytest

from flows.batch.choice import rules_from
from mm2.config.explanation import FOLLOWS, ExplainedLine, explain_flow, merged_bytes
from mm2.config.load import load, load_file
from mm2.core.settings.client import FetchSettings, ProduceSettings

FILE = "clusters = A, B\nA.bootstrap.servers = a:9092\nB.bootstrap.servers = b:9092\nA->B.enabled = true\n"


@pytest.mark.parametrize(
    "settings",
    [
        ProduceSettings(),
        ProduceSettings(batch_size=0),
        ProduceSettings(batch_size=500_000),
        ProduceSettings(batch_size=500_000, max_request_size=300_000),
        ProduceSettings(max_request_size=100_000),
    ],
)
def test_shown_batch_size_is_the_effective_one(settings: ProduceSettings) -> None:
    assert merged_bytes(settings) == rules_from(settings, FetchSettings()).merged_bytes


def test_idempotence_that_follows_from_acks(tmp_path: Path) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text(FILE + "B.producer.acks = 1\n")
    loaded, file = load_file(path)
    assert loaded.settings is not None
    assert file is not None
    lines = [line for section in explain_flow(file, loaded.settings.flows[0]) for line in section.lines]
    assert ExplainedLine("enable.idempotence", "false", FOLLOWS) in lines


def test_idempotence_with_acks_that_rule_it_out(tmp_path: Path) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text(FILE + "B.producer.acks = 1\nB.producer.enable.idempotence = true\n")
    (problem,) = load(path).problems
    assert problem.fix == "remove this line, or the lines of acks"
