"""source.cluster.alias and target.cluster.alias, and aliases that cannot be distinguished in topic names."""

from __future__ import annotations

from pathlib import Path

import pytest

from mm2.config.flow_features import features_of
from mm2.config.load import load
from mm2.core.naming import internal_topics
from mm2.core.naming.internal_topics import Side
from mm2.core.naming.names import Flow
from mm2.core.policies import IdentityReplicationPolicy
from tests.unit.config.files import flow, loaded, settings

BOTH = "B->A.enabled = true\n"
EU = "source.cluster.alias = eu\n"
EMPTY = "source.cluster.alias =\ntarget.cluster.alias =\n"
C = "C.bootstrap.servers = c:9092\n"


def three_clusters(directory: Path, *lines: str) -> list[tuple[int | None, bool, str]]:
    """Return the problems of a file with these lines from line 5: line, whether it is a warning, rule."""
    path = directory / "mm2.properties"
    servers = "".join(f"{alias}.bootstrap.servers = {alias.lower()}:9092\n" for alias in "ABC")
    path.write_text(f"clusters = A, B, C\n{servers}" + "".join(f"{line}\n" for line in lines))
    return [(one.line, one.is_warning, one.rule) for one in load(path).problems]


def test_keys_at_top_level_apply_to_every_flow(tmp_path: Path) -> None:
    """As in Java, where `A.alias` is source.cluster.alias, too (MirrorMakerConfig.connectorBaseConfig)."""
    flows = settings(tmp_path, f"{EU}A->B.target.cluster.alias = home\n").flows
    assert [one.aliases for one in flows] == [Flow("eu", "home"), Flow("eu", "A")]
    (one,) = [one for one in settings(tmp_path, f"{EU}A->B.source.cluster.alias = paris\n").flows if one.enabled]
    assert one.aliases == Flow("paris", "B")
    assert settings(tmp_path, f"{EU}A.alias = one\nB.alias = two\n").flows[0].aliases == Flow("one", "two")


def test_names_that_contain_the_aliases(tmp_path: Path) -> None:
    one = flow(tmp_path, "source.cluster.alias = eu\ntarget.cluster.alias = home\n")
    assert one.flow == Flow("A", "B")
    assert one.policy.format_remote_topic(one.aliases.source, "orders") == "eu.orders"
    assert internal_topics.offset_syncs(one.policy, one.aliases, Side.SOURCE).name == "mm2-offset-syncs.home.internal"
    assert internal_topics.offset_syncs(one.policy, one.aliases, Side.TARGET).name == "mm2-offset-syncs.eu.internal"
    assert internal_topics.checkpoints(one.policy, one.aliases).name == "eu.checkpoints.internal"
    assert not one.replication_filter.replicates("home.orders")
    assert one.replication_filter.replicates("B.orders")


def test_names_that_keep_the_aliases_of_the_flow(tmp_path: Path) -> None:
    one = flow(tmp_path, "source.cluster.alias = eu\ntarget.cluster.alias = home\n")
    assert one.worker.group_id == "A-mm2"
    storage = one.storage
    assert (storage.offsets.name, storage.configs.name) == ("mm2-offsets.A.internal", "mm2-configs.A.internal")
    assert internal_topics.exact_offsets(one.flow).name == "mm2-exact-offsets.A.internal"


def test_acls_are_for_the_remote_topics(tmp_path: Path) -> None:
    (features, _) = features_of(settings(tmp_path, f"{EU}A->B.topics = orders\n").flows)
    assert features.source_alias == "eu"
    assert features.checkpoints is not None
    assert features.checkpoints.name == "eu.checkpoints.internal"


def test_policies_receive_the_aliases(tmp_path: Path) -> None:
    identity = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"
    assert flow(tmp_path, EU + identity).policy == IdentityReplicationPolicy(source_alias="eu")


def test_an_alias_must_be_part_of_a_topic_name(tmp_path: Path) -> None:
    (problem,) = loaded(tmp_path, "source.cluster.alias = e/u\n").problems
    assert "like topic names" in problem.rule


def test_flows_into_one_target_need_different_aliases(tmp_path: Path) -> None:
    into_c = ("A->C.enabled = true", "B->C.enabled = true")
    ((line, is_warning, rule),) = three_clusters(tmp_path, *into_c, "source.cluster.alias = eu")
    assert (line, is_warning) == (7, False)
    assert rule.startswith("A->C, B->C have the same source alias, so their remote topics, checkpoints")
    ((line, is_warning, _),) = three_clusters(tmp_path, *into_c, "B->C.source.cluster.alias = A")
    assert (line, is_warning) == (7, False)
    assert three_clusters(tmp_path, *into_c, "B->C.source.cluster.alias = eu") == []
    assert three_clusters(tmp_path, "A->C.enabled = true", "A->B.enabled = true", "source.cluster.alias = eu") == []


def test_flows_that_write_offset_syncs_to_one_source_need_different_aliases(tmp_path: Path) -> None:
    from_a = ("A->B.enabled = true", "A->C.enabled = true", "target.cluster.alias = home")
    ((line, is_warning, rule),) = three_clusters(tmp_path, *from_a)
    assert (line, is_warning) == (7, False)
    assert rule == "A->B, A->C have the same target alias, so their offset syncs would be mixed"
    assert three_clusters(tmp_path, *from_a, "offset-syncs.topic.location = target") == []


@pytest.mark.parametrize(
    ("lines", "line", "rule"),
    [
        (BOTH + EU, 6, "topics such as x in an endless loop: cluster B is B for A->B, but eu for B->A"),
        (
            BOTH + "topics = orders\nA->B.source.cluster.alias = eu\nA->B.target.cluster.alias = home\n",
            8,
            "topics such as heartbeats in an endless loop",
        ),
    ],
)
def test_flows_that_loop_because_of_aliases(tmp_path: Path, lines: str, line: int, rule: str) -> None:
    (problem,) = loaded(tmp_path, lines).problems
    assert (problem.line, problem.is_warning) == (line, False)
    assert rule in problem.rule


def test_flows_that_recognise_each_other_by_other_aliases(tmp_path: Path) -> None:
    for one in ("A->B.source.cluster.alias = eu\nB->A.target.cluster.alias = eu\n", "A.alias = eu\nB.alias = us\n"):
        assert not [problem for problem in loaded(tmp_path, BOTH + one).problems if not problem.is_warning]


def test_empty_aliases_and_separator_keep_names(tmp_path: Path) -> None:
    result = loaded(tmp_path, f"replication.policy.separator =\n{EMPTY}")
    (problem,) = result.problems
    assert (problem.line, problem.is_warning) == (6, True)
    assert problem.rule.startswith("with an empty alias and an empty separator, remote topics keep their names")
    assert result.settings is not None
    one = result.settings.flows[0]
    assert one.policy.format_remote_topic(one.aliases.source, "orders") == "orders"
    assert one.replication_filter.replicates("orders")
    assert internal_topics.checkpoints(one.policy, one.aliases).name == "checkpointsinternal"
    assert internal_topics.offset_syncs(one.policy, one.aliases, Side.SOURCE).name == "mm2-offset-syncsinternal"


def test_empty_aliases_in_both_directions_are_a_loop(tmp_path: Path) -> None:
    problems = loaded(tmp_path, f"{BOTH}topics = orders\nreplication.policy.separator =\n{EMPTY}").problems
    assert ["originals" in one.rule for one in problems if not one.is_warning] == [True]


def test_ambiguous_aliases_are_an_error_only_if_a_flow_replicates_further(tmp_path: Path) -> None:
    dotted = "A->B.source.cluster.alias = us.west"
    ((line, is_warning, rule),) = three_clusters(tmp_path, "A->B.enabled = true", dotted)
    assert (line, is_warning) == (6, True)
    assert rule == (
        "the source of remote topics of us.west, such as us.west.orders, is ambiguous: . separates alias and topic; no"
        " flow replicates from a cluster with such topics"
    )
    ((line, is_warning, rule),) = three_clusters(tmp_path, "A->B.enabled = true", dotted, "B->C.enabled = true")
    assert (line, is_warning) == (6, False)
    assert rule.endswith("and a flow replicates from B")
    assert three_clusters(tmp_path, "A->B.enabled = true", dotted, "C->A.enabled = true")[0][1]


def test_each_flow_is_judged_by_its_own_separator(tmp_path: Path) -> None:
    dotted = "source.cluster.alias = us.west"
    ((line, is_warning, _),) = three_clusters(
        tmp_path, "A->B.enabled = true", "A->C.enabled = true", dotted, "A->B.replication.policy.separator = _"
    )
    assert (line, is_warning) == (7, True)
