from __future__ import annotations

from pathlib import Path

import pytest

from flows.batch.choice import rules_from
from mm2.config.explanation import FOLLOWS, QUERIES, ExplainedLine, explain_flow, merged_bytes
from mm2.config.load import load, load_file
from mm2.core.settings.client import FetchSettings, ProduceSettings
from mm2.core.settings.row_query import RowQuery

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
    problem, of_acks = load(path).problems
    assert problem.fix == "remove this line, or the lines of acks"
    assert of_acks.is_warning


def test_queries_in_the_order_in_which_they_match(tmp_path: Path) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text(
        FILE + "A->B.mm2.sql.b.topics = b\nmm2.sql.b.query = SELECT value AS key FROM records WHERE offset > 3\n"
        "A->B.mm2.sql.a.topics = a\nA->B.mm2.sql.a.transform = my.module:users\nmm2.sql.a.query = SELECT 1 AS key "
        "FROM records\n"
    )
    loaded, file = load_file(path)
    assert loaded.settings is not None, loaded.problems
    assert file is not None
    flow, other = loaded.settings.flows
    query = flow.queries.in_order[0].action
    assert isinstance(query, RowQuery)
    (section,) = (one for one in explain_flow(file, flow) if one.title == QUERIES)
    assert section.lines == (
        ExplainedLine("mm2.sql.b.topics", "b", "line 5: A->B.mm2.sql.b.topics"),
        ExplainedLine("mm2.sql.b.query", "SELECT value AS key FROM records WHERE offset > 3", "line 6"),
        ExplainedLine("mm2.sql.b.dead.letters", "without-values", "default"),
        ExplainedLine("b", "sets key, drops records", f"sha256 {query.sha256[:16]}"),
        ExplainedLine("mm2.sql.a.topics", "a", "line 7: A->B.mm2.sql.a.topics"),
        ExplainedLine("mm2.sql.a.transform", "my.module:users", "line 8: A->B.mm2.sql.a.transform"),
        ExplainedLine("mm2.sql.a.dead.letters", "without-values", "default"),
    )
    (nothing,) = (one for one in explain_flow(file, other) if one.title == QUERIES)
    assert nothing.lines == ()
