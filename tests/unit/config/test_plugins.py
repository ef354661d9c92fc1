"""Classes of a user's own in the file. What is refused, word by word: tests/golden/test_config_problems.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from mm2.config.filters import NameFilter, OwnFilter
from mm2.config.load import load
from mm2.core.own_policy import OwnPolicy
from mm2.core.plugins import PluginError
from mm2.kafka.admin import ClusterAdmin
from tests.unit.config.files import CLUSTERS, flow, loaded, settings

MODULE = '''
from mm2.core.plugins import GroupFilter
from mm2.core.policies import IdentityReplicationPolicy
from mm2.kafka.admin import ClusterAdmin

class Groups(GroupFilter):
    def configure(self, properties):
        self.properties = dict(properties)

    def told(self):
        return self.properties

    def should_replicate_group(self, group):
        if group == "odd":
            raise ValueError("odd")
        return group.startswith("svc-")

class Ducks:
    """Inherits from nothing and is not configured."""

    def should_replicate_topic(self, topic):
        return topic == "ducks"

class Renamed(IdentityReplicationPolicy):
    def heartbeats_topic(self):
        return "beats"

class Admin(ClusterAdmin):
    pass
'''


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of the test's own, so that no test finds another's in sys.modules."""
    directory = tmp_path / "modules"
    directory.mkdir()
    name = f"acme_{tmp_path.parent.name}_{tmp_path.name}".replace("-", "_")
    (directory / f"{name}.py").write_text(MODULE)
    monkeypatch.syspath_prepend(directory)
    return name


def test_a_filter_of_the_users_own_chooses(tmp_path: Path, module: str) -> None:
    chosen = flow(tmp_path, f"group.filter.class = {module}:Groups\ntopic.filter.class = {module}:Ducks\n")
    groups = chosen.group_filter
    assert isinstance(groups, OwnFilter)
    assert [groups(group) for group in ("svc-a", "a")] == [True, False]
    assert [chosen.topic_filter(topic) for topic in ("ducks", "geese")] == [True, False]
    assert groups.refusal("svc-a", "groups") is None
    assert groups.refusal("a", "groups") == f"group.filter.class {module}:Groups leaves it out"
    with pytest.raises(PluginError):
        groups("odd")
    refusal = groups.refusal("odd", "groups")
    assert refusal is not None
    assert refusal.startswith(f"group.filter.class {module}:Groups: should_replicate_group('odd') raised ValueError")


def test_it_is_told_about_its_flow_and_no_password(tmp_path: Path, module: str) -> None:
    groups = flow(
        tmp_path,
        f"A->B.group.filter.class = {module}:Groups\n"
        "A->B.acme.list = x\\u0020\n"
        "B->A.acme.other = y\n"
        "groups = g.*\n"
        "tasks.max = 3\n"
        "A.sasl.jaas.config = org.example.LoginModule required password=sesame;\n"
        "ssl.key.password = sesame\n"
        "A->B.source.consumer.ssl.key.password = sesame\n"
        "A->B.consumer.fetch.min.bytes = 3\n",
    ).group_filter
    assert isinstance(groups, OwnFilter)
    assert groups.plugin.ask("told") == {
        "source.cluster.alias": "A",
        "target.cluster.alias": "B",
        "group.filter.class": f"{module}:Groups",
        "acme.list": "x ",
        "groups": "g.*",
        "tasks.max": "3",
        "enabled": "true",
    }


def test_filters_are_made_only_where_topics_are_replicated(tmp_path: Path, module: str) -> None:
    node = settings(tmp_path, f"group.filter.class = {module}:Groups\n")
    assert [type(flow.group_filter) for flow in node.flows] == [OwnFilter, NameFilter]


def test_a_policy_that_inherits_is_made_as_the_built_in_ones(tmp_path: Path, module: str) -> None:
    lines = f"replication.policy.class = {module}:Renamed\nreplication.policy.separator = _\n"
    policies = [flow.policy for flow in settings(tmp_path, lines).flows]
    assert all(isinstance(policy, OwnPolicy) for policy in policies)
    assert [policy.topic_source("orders") for policy in policies] == ["A", "B"]
    assert policies[0].heartbeats_topic() == "beats"
    assert policies[0].checkpoints_topic("A") == "A_checkpoints_internal"


def test_an_alias_is_no_trouble_for_a_policy_of_the_users_own(tmp_path: Path, module: str) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text(CLUSTERS.replace("B", "b.eu") + f"replication.policy.class = {module}:Renamed\n")
    assert load(path).problems == ()


def test_the_admin(tmp_path: Path, module: str) -> None:
    assert flow(tmp_path).admin_class is ClusterAdmin
    chosen = flow(tmp_path, f"forwarding.admin.class = {module}:Admin\nA->B.acme.url = http://x\n")
    assert (chosen.admin.name, chosen.admin.properties["acme.url"]) == (f"{module}:Admin", "http://x")
    assert chosen.admin.own is not None
    assert issubclass(chosen.admin.own, ClusterAdmin)
    assert callable(chosen.admin_class)


def test_a_class_that_cannot_be_is_told_once_for_all_flows(tmp_path: Path, module: str) -> None:
    result = loaded(tmp_path, f"B->A.enabled = true\nforwarding.admin.class = {module}:Groups\n")
    (problem,) = result.problems
    assert (problem.line, problem.text) == (
        6,
        "names a class that is not an admin: it lacks create_topics, create_partitions, alter_topic_configs,"
        " create_acls. Add what is missing, or inherit from mm2.kafka.admin.ClusterAdmin (docs/extending.md).",
    )


def test_keys_of_a_class_are_no_strangers(tmp_path: Path, module: str) -> None:
    lines = f"replication.policy.class = {module}:Renamed\nreplication.policy.mark = x\nA->B.acme.list = y\n"
    assert loaded(tmp_path, lines).problems == ()
