"""How many lanes a node has: each query of each flow has as many again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from mm2.config.lane_counts import lanes_of, sql_lanes_of
from tests.unit.config.files import settings


def flow(name: str, **queries: str) -> str:
    keys = {f"{name}.mm2.sql.{query}.query": text for query, text in queries.items()}
    keys |= {f"{name}.mm2.sql.{query}.topics": query for query in queries}
    return "".join(f"{key} = {value}\n" for key, value in {f"{name}.enabled": "true", **keys}.items())


def test_the_number_of_sql_lanes(tmp_path: Path) -> None:
    mask, drop = "SELECT upper(key) AS value FROM records", "SELECT * FROM records WHERE key IS NOT NULL"
    flows = settings(tmp_path, flow("A->B", mask=mask, drop=drop) + flow("B->A", mask=mask)).flows
    assert sql_lanes_of(flows, lanes=3) == 3 * 3, "both flows have a query mask, each with lanes of its own"
    assert sql_lanes_of([replace(flows[0], enabled=False), flows[1]], lanes=3) == 3


def test_the_number_of_lanes(tmp_path: Path) -> None:
    assert lanes_of(settings(tmp_path, "mm2.lanes = 3\n").own) == 3
    assert lanes_of(settings(tmp_path).own) >= 1
