from __future__ import annotations

import pickle
from pathlib import Path

from mm2.config.load import load
from mm2.core.coordination.session_keys import KeyRules
from mm2.core.naming.names import Flow
from mm2.core.offsets.map_retention import TranslationWindow
from mm2.core.policies import DefaultReplicationPolicy, IdentityReplicationPolicy
from mm2.core.settings.client import OffsetReset
from tests.unit.config.files import flow, loaded, settings


def test_defaults(tmp_path: Path) -> None:
    node = settings(tmp_path)
    assert [(flow.flow, flow.enabled, flow.heartbeats) for flow in node.flows] == [
        (Flow("A", "B"), True, True),
        (Flow("B", "A"), False, True),
    ]
    assert node.clusters == ("A", "B")
    assert node.rest.listeners is None
    assert node.own.lanes is None
    assert node.own.lane_buffer_bytes == 64 * 1024 * 1024
    assert (node.own.log_level, node.own.log_format) == ("INFO", "text")
    assert node.spark == {}
    first = node.flows[0]
    assert first.source.tasks_max == 1
    assert first.worker.group_id == "A-mm2"
    assert first.worker.offset_flush_interval_ms == 5_000
    assert first.worker.task_shutdown_graceful_timeout_ms == 10_000
    assert first.own.offset_translation == "exact"
    assert first.policy == DefaultReplicationPolicy()


def test_storage_topics_and_their_settings(tmp_path: Path) -> None:
    storage = flow(
        tmp_path,
        "offset.storage.replication.factor = 1\nB.offset.storage.partitions = 3\noffset.storage.segment.bytes = 1000\n"
        "status.storage.topic = states\nconfig.storage.cleanup.policy = delete\n",
    ).storage
    assert (storage.offsets.name, storage.offsets.partitions, storage.offsets.replication_factor) == (
        "mm2-offsets.A.internal",
        3,
        1,
    )
    assert storage.offsets.configs == (("segment.bytes", "1000"),)
    assert (storage.statuses.name, storage.statuses.partitions) == ("states", 5)
    assert (storage.configs.name, storage.configs.partitions, storage.configs.configs) == (
        "mm2-configs.A.internal",
        1,
        (),
    )


def test_filters_of_the_file(tmp_path: Path) -> None:
    chosen = flow(
        tmp_path, "topics = orders\\\\..*, Fx\nA->B.topics.exclude = .*-old\ngroups =\nconfig.properties.exclude =\n"
    )
    names = ("orders.eu", "orders.eu-old", "orders", "Fx", "fx")
    assert [name for name in names if chosen.topic_filter(name)] == ["orders.eu", "Fx"]
    assert not chosen.group_filter("anything")
    assert chosen.config_property_filter("min.insync.replicas")
    assert not flow(tmp_path).config_property_filter("min.insync.replicas")


def test_old_filter_names_apply_if_the_new_name_is_not_set(tmp_path: Path) -> None:
    result = loaded(tmp_path, "topics.blacklist = a\nA->B.groups.blacklist = g\ngroups.exclude = h\n")
    assert result.settings is not None
    chosen = result.settings.flows[0]
    assert (chosen.source.topics_exclude, chosen.checkpoint.groups_exclude) == (("a",), ("h",))
    assert [problem.line for problem in result.problems if "old name" in str(problem)] == [5, 6]


def test_policy_of_the_file(tmp_path: Path) -> None:
    lines = "replication.policy.separator = _\nreplication.policy.internal.topic.separator.enabled = false\n"
    assert flow(tmp_path, lines).policy == DefaultReplicationPolicy(separator="_", internal_separator_enabled=False)
    name = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
    identity = flow(tmp_path, f"A->B.replication.policy.class = {name}\n").policy
    assert identity == IdentityReplicationPolicy(source_alias="A")


def test_java_class_names_are_accepted(tmp_path: Path) -> None:
    mirror = "org.apache.kafka.connect.mirror"
    result = loaded(
        tmp_path,
        f"topic.filter.class = {mirror}.DefaultTopicFilter\ntransforms =\nerrors.tolerance = none\n",
    )
    assert result.problems == ()


def test_selected_clusters_select_flows_by_target(tmp_path: Path) -> None:
    result = loaded(tmp_path, "B->A.enabled = true\n", clusters=("A",))
    assert result.settings is not None
    assert [str(flow.flow) for flow in result.settings.flows] == ["B->A"]


def test_spark_and_own_keys(tmp_path: Path) -> None:
    node = settings(
        tmp_path,
        "spark.master = local[2,4]\nspark.ssl.keyPassword = sesame\nmm2.lanes = 3\nmm2.log.level = debug\n"
        "listeners = http://127.0.0.1:8083, http://[::1]:0/\nmm2.log.format = json\n",
    )
    assert node.spark == {"spark.master": "local[2,4]", "spark.ssl.keyPassword": "sesame"}
    assert "sesame" not in repr(node)
    assert (node.own.lanes, node.own.log_level, node.own.log_format) == (3, "DEBUG", "json")
    assert node.rest.listeners == ("http://127.0.0.1:8083", "http://[::1]:0/")


def test_flow_prefix_overrides_unprefixed_keys(tmp_path: Path) -> None:
    flows = settings(tmp_path, "mm2.offset.translation = compatible\nA->B.mm2.offset.translation = exact\n").flows
    assert [flow.own.offset_translation for flow in flows] == ["exact", "compatible"]


def test_start_of_partitions_without_offset(tmp_path: Path) -> None:
    lines = "mm2.start = latest\nA->B.mm2.start = 2026-11-01T00:00:00Z\nB.consumer.auto.offset.reset = earliest\n"
    fetches = [flow.clients.fetch for flow in settings(tmp_path, lines).flows]
    assert [fetch.start for fetch in fetches] == [1_793_491_200_000, OffsetReset.LATEST]
    assert [fetch.auto_offset_reset for fetch in fetches] == [OffsetReset.EARLIEST, OffsetReset.EARLIEST]
    assert flow(tmp_path).clients.fetch.start is None
    (problem,) = loaded(tmp_path, "A->B.mm2.start = 2026-11-01T00:00:00\n").problems
    assert "A->B.mm2.start = 2026-11-01T00:00:00: must be a time with a time zone" in str(problem)


def test_window_of_exact_translation(tmp_path: Path) -> None:
    lines = "mm2.offset.translation.window = 32768\nA->B.mm2.offset.translation.window = 32\n"
    assert [flow.own.offset_translation_window for flow in settings(tmp_path, lines).flows] == [32, 32_768]
    assert flow(tmp_path).own.offset_translation_window is TranslationWindow.RETENTION
    written = flow(tmp_path, "mm2.offset.translation.window = retention\n")
    assert written.own.offset_translation_window is TranslationWindow.RETENTION
    for wrong in ("0", "31", "33", "65536", "-32", "forever", ""):
        (problem,) = loaded(tmp_path, f"mm2.offset.translation.window = {wrong}\n").problems
        assert "must be retention, or a multiple of 32 from 32 to 32768" in str(problem)


def test_bytes_of_the_exact_offset_map(tmp_path: Path) -> None:
    assert flow(tmp_path).own.offset_map_max_bytes == 256 * 1024 * 1024
    assert flow(tmp_path, "A->B.mm2.offset.map.max.bytes = 1048576\n").own.offset_map_max_bytes == 1_048_576
    (problem,) = loaded(tmp_path, "mm2.offset.map.max.bytes = 1024\n").problems
    assert "at least 1048576" in str(problem)


def test_settings_can_be_pickled(tmp_path: Path) -> None:
    node = settings(tmp_path, "topics = orders.*\n")
    assert pickle.loads(pickle.dumps(node)) == node


def test_cluster_aliases_can_equal_key_prefixes(tmp_path: Path) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text(
        "clusters = source, topics\nsource.bootstrap.servers = a:1\ntopics.bootstrap.servers = b:1\n"
        "source->topics.enabled = true\ntopics.exclude = x\n"
    )
    result = load(path)
    assert result.problems == ()
    assert result.settings is not None
    assert result.settings.flows[0].source.topics_exclude == ("x",)


def test_every_problem_is_reported_once(tmp_path: Path) -> None:
    result = loaded(tmp_path, "tasks.max = none\nreplication.factor = none\n")
    assert result.settings is None
    assert [problem.line for problem in result.problems] == [5, 6]


def test_offset_syncs_can_be_disabled_without_further_settings(tmp_path: Path) -> None:
    assert not flow(tmp_path, "emit.offset-syncs.enabled = false\n").source.emit_offset_syncs_enabled


def test_signing_of_internal_requests(tmp_path: Path) -> None:
    assert flow(tmp_path).worker.session_keys == KeyRules(algorithm="HmacSHA256", bits=None, ttl_ms=3_600_000)
    lines = "B.inter.worker.key.generation.algorithm = hmacsha512\nB.inter.worker.key.size = 256\n"
    lines += "B.inter.worker.key.ttl.ms = 0\nB.inter.worker.signature.algorithm = HmacSHA3-256\n"
    lines += "B.inter.worker.verification.algorithms = HmacSHA256, HmacSHA3-256\n"
    worker = flow(tmp_path, lines).worker
    assert worker.session_keys == KeyRules(algorithm="hmacsha512", bits=256, ttl_ms=0)
    assert worker.inter_worker_signature_algorithm in worker.inter_worker_verification_algorithms
