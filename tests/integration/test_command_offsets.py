"""``mm2 offsets`` on real brokers with the state of a flow whose node is not running."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from mm2.cli.commands import execute, mm2_app
from mm2.core.naming.names import TopicPartition
from tests.integration.failover_stage import Stage, commit
from tests.lab.cluster import KafkaCluster
from tests.lab.commands import run
from tests.lab.fixtures import StartCluster, unique_name
from tests.lab.ports import HOST, release_port, reserve_port
from tests.lab.waiting import require_within, wait_until

ODD = "Grüße, an «alle»; \N{SNOWMAN}"
JOINED = 30.0  # seconds until a consumer has its partitions: the first rebalance waits for more members


@pytest.fixture(scope="module")
def groups() -> dict[str, str]:
    """Group names unique to this run, by the special property of the group."""
    return {stem: unique_name(stem) for stem in ("reader", "behind", "excluded", "elsewhere", "active")} | {
        "odd": unique_name(ODD)
    }


@pytest.fixture(scope="module")
def stage(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, tmp_path_factory: pytest.TempPathFactory, groups: dict[str, str]
) -> Stage:
    """For ``orders``-0 the exact map maps 100-1,099 to 40-1,039; offset syncs exist only for 500 and 1,000."""
    aliases = unique_name("A"), unique_name("B")
    made = Stage(tmp_path_factory.mktemp("offsets"), source=cluster_a, target=cluster_b, aliases=aliases)
    made.create_internal()
    made.create("orders", partitions=3)
    made.create("fresh")
    made.copied("orders", 100, 40, 1_000)
    made.sync("orders", 500, 440)
    made.sync("orders", 1_000, 940)
    made.sync("orders", 2_000, 1_900, partition=1)
    orders, fresh = made.source_partition("orders"), made.source_partition("fresh")
    second, third = made.source_partition("orders", 1), made.source_partition("orders", 2)
    hidden = cluster_a.create_topic(unique_name("hidden"))
    commit(cluster_a, groups["reader"], {orders: 777, second: 2_050, fresh: 5, TopicPartition(hidden, 0): 3})
    commit(cluster_a, groups["odd"], {orders: 1_100})
    commit(cluster_a, groups["behind"], {second: 1_999, third: 10})
    commit(cluster_a, groups["excluded"], {orders: 150})
    commit(cluster_a, groups["elsewhere"], {TopicPartition(hidden, 0): 3})
    commit(cluster_a, groups["active"], {orders: 100})
    made.checkpoint(groups["reader"], "orders", 700, 630)
    made.checkpoint(groups["odd"], "orders", 1_000, 941)
    made.checkpoint(groups["behind"], "orders", 1_500, 1_450, partition=1)
    made.checkpoint(groups["behind"], "orders", 12, 12, partition=2)
    commit(cluster_b, groups["reader"], {made.remote_partition("orders"): 600})
    made.properties[f"{made.name}.groups"] = ", ".join(
        f"{stem}-{groups[stem].rpartition('-')[2]}" for stem in ("reader", "behind", "elsewhere", "active", "excluded")
    )
    made.properties[f"{made.name}.groups"] += f", .*{groups['odd'].rpartition('-')[2]}"
    made.properties[f"{made.name}.groups.exclude"] = groups["excluded"]
    return made


@pytest.fixture
def mm2(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run the command in this process: starting Python takes longer than querying two clusters."""

    def call(*words: str) -> tuple[int, str, str]:
        code = execute(mm2_app(), words)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def answers(out: str) -> dict[str, dict[str, Any]]:
    """Return the groups of the JSON output by name, their partitions by ``topic-partition``."""
    groups: dict[str, dict[str, Any]] = {}
    for group in json.loads(out)["groups"]:
        partitions = {f"{one['topic']}-{one['partition']}": one for one in group["partitions"]}
        groups[group["group"]] = group | {"partitions": partitions}
    return groups


def test_exact_conservative_and_missing_translations(stage: Stage, groups: dict[str, str], mm2: Any) -> None:
    code, out, err = mm2("offsets", stage.file(), "--json")
    assert (code, err) == (0, "")
    shown = answers(out)
    reader = shown[groups["reader"]]
    assert (reader["source_state"], reader["target_state"], reader["positions_from"]) == ("Empty", "Empty", "source")
    first = reader["partitions"][f"{stage.alias}-orders-0"]
    checkpoint = first.pop("checkpoint")
    assert first == {
        "topic": f"{stage.alias}-orders",
        "partition": 0,
        "source_offset": 777,
        "remote_topic": f"{stage.alias}.{stage.alias}-orders",
        "translated_offset": 717,
        "answer": "exact",
        "read_again": 0,
        "reason": None,
        "target_offset": 600,
    }
    assert (checkpoint["source_offset"], checkpoint["translated_offset"]) == (700, 630)
    assert 0 <= time.time() * 1000 - checkpoint["written_ms"] < 600_000
    second = reader["partitions"][f"{stage.alias}-orders-1"]  # one past the sync at 2,000, as Java
    assert (second["translated_offset"], second["answer"], second["read_again"]) == (1_901, "conservative", 49)
    fresh = reader["partitions"][f"{stage.alias}-fresh-0"]
    assert (fresh["translated_offset"], fresh["answer"]) == (None, "none")
    assert (
        fresh["reason"] == "no offset sync for this partition yet: nothing was replicated, or offset syncs are disabled"
    )
    (hidden,) = (one for name, one in reader["partitions"].items() if name.startswith("hidden"))
    assert hidden["reason"] == f"not matched by topics: {stage.alias}-.*"


def test_groups_are_sorted_and_filtered_ones_listed(stage: Stage, groups: dict[str, str], mm2: Any) -> None:
    _, out, _ = mm2("offsets", stage.file(), "--json")
    names = [group["group"] for group in json.loads(out)["groups"]]
    assert names == sorted(groups[stem] for stem in ("reader", "behind", "odd", "active"))
    caught_up = answers(out)[groups["odd"]]["partitions"][f"{stage.alias}-orders-0"]
    assert (caught_up["translated_offset"], caught_up["answer"]) == (1_040, "exact")
    left_out = json.loads(out)["not_translated"]
    assert left_out[groups["excluded"]] == f"excluded by groups.exclude: {groups['excluded']}"
    assert left_out[groups["elsewhere"]].startswith("it has no committed offsets for a topic that topics and")


def test_checkpoint_is_used_without_syncs_and_never_skips_records(
    stage: Stage, groups: dict[str, str], mm2: Any
) -> None:
    _, out, _ = mm2("offsets", stage.file(), "--json", "--group", groups["behind"])
    partitions = answers(out)[groups["behind"]]["partitions"]
    older = partitions[f"{stage.alias}-orders-1"]  # its only sync is at 2,000
    assert (older["translated_offset"], older["answer"], older["read_again"]) == (1_450, "conservative", None)
    stepped_back = partitions[f"{stage.alias}-orders-2"]  # moved back to 10 after a checkpoint for 12
    assert stepped_back["translated_offset"] is None
    assert "the last checkpoint is for source offset 12 and would skip records before it" in stepped_back["reason"]


def test_table_output(stage: Stage, groups: dict[str, str], mm2: Any) -> None:
    code, out, _ = mm2("offsets", stage.file(), "--flow", stage.name, "--group", groups["reader"], groups["excluded"])
    assert code == 0
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert lines[0] == (
        f"{stage.name} 2 groups, 5 partitions: 2 exact, 1 conservative (at most 49 records read again),"
        " 2 not translated"
    )
    assert f"group {groups['reader']} {stage.alias}: Empty {stage.to}: Empty" in lines
    remote = stage.remote_partition("orders").topic
    (row,) = (line for line in lines if " 777 " in line)
    assert row.startswith(f"{stage.alias}-orders-0 777 {remote}-0 717 exact 0 600 700 -> 630, ")
    assert f"group {groups['excluded']} {stage.alias}: Empty {stage.to}: no such group" in lines
    assert f"! no checkpoints are written: excluded by groups.exclude: {groups['excluded']}" in lines


def test_compatible_translation_gives_javas_results(stage: Stage, groups: dict[str, str], mm2: Any) -> None:
    file = stage.file("compatible.properties", mm2__offset__translation="compatible")
    _, out, _ = mm2("offsets", file, "--json", f"--group={groups['reader']}")
    first = answers(out)[groups["reader"]]["partitions"][f"{stage.alias}-orders-0"]
    # one past the sync at 500 is 441, but the checkpoint for 700 is already further
    assert (first["translated_offset"], first["answer"]) == (630, "conservative")


def test_group_active_on_the_target(stage: Stage, groups: dict[str, str], mm2: Any) -> None:
    consumer = Consumer({"bootstrap.servers": stage.target.bootstrap, "group.id": groups["active"], "log_level": 0})
    try:
        consumer.subscribe([stage.remote_partition("orders").topic])
        wait_until(lambda: (consumer.poll(0.1), consumer.assignment())[1], JOINED, "the consumer has its partitions")
        _, out, _ = mm2("offsets", stage.file(), "--json", "--group", groups["active"])
    finally:
        consumer.close()
    assert answers(out)[groups["active"]]["target_state"] == "Stable"


def test_unknown_group_and_unknown_flow(stage: Stage, groups: dict[str, str], mm2: Any) -> None:
    wrong = groups["reader"].upper()
    code, out, err = mm2("offsets", stage.file(), "--group", wrong)
    assert (code, out) == (1, "")
    assert err == (
        f"mm2 offsets: group {wrong!r} has no checkpoint on {stage.to} and does not exist on {stage.alias}."
        f" Did you mean {groups['reader']!r}?\n"
    )
    code, out, err = mm2("offsets", stage.file(), "--flow", "B->A")
    assert (code, out) == (2, "")
    assert err == f"mm2 offsets: no flow 'B->A' in the file. Enabled flows: {stage.name}.\n"
    both = stage.file("both.properties", **{f"{stage.to}->{stage.alias}.enabled": "true"})
    code, _, err = mm2("offsets", both)
    assert code == 2
    assert err.startswith("mm2 offsets: add --flow 'A->B', because the file has several enabled flows, or none. ")


@pytest.fixture
def nowhere() -> Iterator[str]:
    """An address on which no server listens."""
    port = reserve_port()
    yield f"{HOST}:{port}"
    release_port(port)


def test_unreachable_target_is_a_one_line_error(stage: Stage, nowhere: str, mm2: Any) -> None:
    file = stage.file("no-target.properties", **{f"{stage.to}.bootstrap.servers": nowhere})
    code, out, err = mm2("offsets", file)
    assert (code, out) == (1, "")
    assert err.startswith(f"mm2 offsets: cluster {stage.to} is unreachable: ")
    assert err.count("\n") == 1


def test_hung_source_times_out(stage: Stage, groups: dict[str, str], mm2: Any) -> None:
    with socket.create_server((HOST, 0)) as mute:
        address = f"{HOST}:{mute.getsockname()[1]}"
        began = time.monotonic()
        mute_source = {f"{stage.alias}.bootstrap.servers": address, f"{stage.alias}.request.timeout.ms": "3000"}
        code, out, err = mm2("offsets", stage.file("mute.properties", **mute_source), "--json")
    require_within(time.monotonic() - began, 20.0, "mm2 offsets does not wait for the source for longer")
    assert code == 0
    assert f"{address}: timed out" in err
    assert answers(out)[groups["reader"]]["positions_from"] == "checkpoints"


def test_stopped_source(
    start_cluster: StartCluster, cluster_b: KafkaCluster, tmp_path: Path, groups: dict[str, str]
) -> None:
    """Run the command in a separate process, before and after the source stops."""
    stage = Stage(
        tmp_path, source=start_cluster("failing"), target=cluster_b, aliases=(unique_name("A"), unique_name("B"))
    )
    stage.create_internal()
    stage.create("orders", partitions=2)
    stage.copied("orders", 0, 0, 1_000)
    stage.sync("orders", 2_000, 1_900, partition=1)
    group = groups["odd"]
    commit(stage.source, group, {stage.source_partition("orders"): 900, stage.source_partition("orders", 1): 2_500})
    stage.checkpoint(group, "orders", 800, 700)
    stage.checkpoint(group, "orders", 2_400, 1_901, partition=1)
    file = stage.file()
    before = run("mm2", "offsets", file, "--json", "--group", group)
    assert (before.code, before.stderr) == (0, "")
    assert _offsets(before.stdout) == [(900, 900, "exact", 0), (2_500, 1_901, "conservative", 499)]

    stage.source.close()
    after = run("mm2", "offsets", file, "--json", "--group", group)
    assert after.code == 0
    assert after.stderr.startswith(
        f"mm2 offsets: cluster {stage.alias} is unreachable, so positions are those of the last checkpoints: "
    )
    assert after.stderr.count("\n") == 1
    # the exact map is on the target and more precise than the checkpoint; the second partition has only a checkpoint
    assert _offsets(after.stdout) == [(800, 800, "exact", 0), (2_400, 1_901, "conservative", None)]
    unknown = run("mm2", "offsets", file, "--group", "nobody")
    assert unknown.code == 1
    assert f"group 'nobody' has no checkpoint on {stage.to}, and {stage.alias} is unreachable." in unknown.stderr


def _offsets(out: str) -> list[tuple[Any, ...]]:
    (group,) = json.loads(out)["groups"]
    wanted = ("source_offset", "translated_offset", "answer", "read_again")
    return [tuple(one[field] for field in wanted) for one in group["partitions"]]
