"""User classes in the file. Messages: tests/snapshots/test_config_problems.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from mm2.config.load import load
from mm2.config.plugins.filters import NameFilter, OwnFilter
from mm2.core.naming.guarded_policy import GuardedPolicy
from mm2.core.plugins import PluginError
from mm2.kafka.admin.cluster_admin import ClusterAdmin
from tests.unit.config.files import CLUSTERS, flow, loaded, settings

MODULE = '''
from mm2.core.plugins import GroupFilter
from mm2.core.policies import IdentityReplicationPolicy
from mm2.kafka.admin.cluster_admin import ClusterAdmin

class Groups(GroupFilter):
    def configure(self, properties):
        self.properties = dict(properties)

    def received_properties(self):
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
    """Create a module with a unique name, so that no test finds another's in sys.modules."""
    directory = tmp_path / "modules"
    directory.mkdir()
    name = f"acme_{tmp_path.parent.name}_{tmp_path.name}".replace("-", "_")
    (directory / f"{name}.py").write_text(MODULE)
    monkeypatch.syspath_prepend(directory)
    return name


def test_user_filter(tmp_path: Path, module: str) -> None:
    chosen = flow(tmp_path, f"group.filter.class = {module}:Groups\ntopic.filter.class = {module}:Ducks\n")
    groups = chosen.group_filter
    assert isinstance(groups, OwnFilter)
    assert [groups(group) for group in ("svc-a", "a")] == [True, False]
    assert [chosen.topic_filter(topic) for topic in ("ducks", "geese")] == [True, False]
    assert groups.refusal("svc-a", "groups") is None
    assert groups.refusal("a", "groups") == f"excluded by group.filter.class {module}:Groups"
    with pytest.raises(PluginError):
        groups("odd")
    refusal = groups.refusal("odd", "groups")
    assert refusal is not None
    assert refusal.startswith(f"group.filter.class {module}:Groups: should_replicate_group('odd') raised ValueError")


def test_filter_receives_the_properties_of_its_flow_without_passwords(tmp_path: Path, module: str) -> None:
    groups = flow(
        tmp_path,
        f"A->B.group.filter.class = {module}:Groups\n"
        "A->B.acme.list = x\\u0020\n"
        "B->A.acme.other = y\n"
        "groups = g.*\n"
        "tasks.max = 3\n"
        "A.sasl.jaas.config = org.example.LoginModule required password=sesame;\n"
        "A.security.protocol = PLAINTEXT\n"
        "ssl.key.password = sesame\n"
        "A->B.source.consumer.ssl.key.password = sesame\n"
        "A->B.consumer.fetch.min.bytes = 3\n",
    ).group_filter
    assert isinstance(groups, OwnFilter)
    assert groups.plugin.ask("received_properties") == {
        "source.cluster.alias": "A",
        "target.cluster.alias": "B",
        "group.filter.class": f"{module}:Groups",
        "acme.list": "x ",
        "groups": "g.*",
        "tasks.max": "3",
        "enabled": "true",
    }


def test_filters_are_created_for_enabled_flows_only(tmp_path: Path, module: str) -> None:
    node = settings(tmp_path, f"group.filter.class = {module}:Groups\n")
    assert [type(flow.group_filter) for flow in node.flows] == [OwnFilter, NameFilter]


def test_policy_subclass_is_created_like_the_built_in_policies(tmp_path: Path, module: str) -> None:
    lines = f"replication.policy.class = {module}:Renamed\nreplication.policy.separator = _\n"
    policies = [flow.policy for flow in settings(tmp_path, lines).flows]
    assert all(isinstance(policy, GuardedPolicy) for policy in policies)
    assert [policy.topic_source("orders") for policy in policies] == ["A", "B"]
    assert policies[0].heartbeats_topic() == "beats"
    assert policies[0].checkpoints_topic("A") == "A_checkpoints_internal"


def test_any_alias_is_allowed_with_a_user_policy(tmp_path: Path, module: str) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text(CLUSTERS.replace("B", "b.eu") + f"replication.policy.class = {module}:Renamed\n")
    assert load(path).problems == ()


def test_user_admin(tmp_path: Path, module: str) -> None:
    assert flow(tmp_path).admin_class is ClusterAdmin
    chosen = flow(tmp_path, f"forwarding.admin.class = {module}:Admin\nA->B.acme.url = http://x\n")
    assert (chosen.admin.name, chosen.admin.properties["acme.url"]) == (f"{module}:Admin", "http://x")
    assert chosen.admin.own is not None
    assert issubclass(chosen.admin.own, ClusterAdmin)
    assert callable(chosen.admin_class)


def test_unusable_class_is_reported_once_for_all_flows(tmp_path: Path, module: str) -> None:
    result = loaded(tmp_path, f"B->A.enabled = true\nforwarding.admin.class = {module}:Groups\n")
    (problem,) = result.problems
    assert (problem.line, problem.rule) == (
        6,
        "the class is not an admin: it has no create_topics, create_partitions, alter_topic_configs, create_acls",
    )
    assert "inherit from mm2.kafka.admin.ClusterAdmin" in problem.fix


@pytest.mark.parametrize("name", ["IdentityReplicationPolicy", "IdentiyReplicationPolicy"])
def test_short_names_of_built_in_classes_are_completed(tmp_path: Path, name: str) -> None:
    (problem,) = loaded(tmp_path, f"replication.policy.class = {name}\n").problems
    assert "org.apache.kafka.connect.mirror.IdentityReplicationPolicy" in problem.fix


def test_suggested_classes_have_the_required_methods(tmp_path: Path, module: str) -> None:
    lines = f"topic.filter.class = {module}:Unknown\nconfig.property.filter.class = {module}:Unknown\n"
    topic, config = loaded(tmp_path, lines).problems
    assert topic.fix == "use a topic filter of the module: Ducks"
    assert config.fix == f"add Unknown to {module}"


def test_properties_of_a_user_class_are_known(tmp_path: Path, module: str) -> None:
    lines = f"replication.policy.class = {module}:Renamed\nreplication.policy.mark = x\nA->B.acme.list = y\n"
    assert loaded(tmp_path, lines).problems == ()
