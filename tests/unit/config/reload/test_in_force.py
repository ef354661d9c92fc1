"""Which settings of a new file a running node applies, and which wait for its restart."""

from __future__ import annotations

from pathlib import Path

from mm2.config.keys.update_mode import UpdateMode
from mm2.config.reload.comparison import compare
from mm2.core.settings.listener import ClientAuth
from mm2.core.settings.zookeeper import ZooKeeperSettings
from mm2.node.reload.file_follower import in_force
from tests.unit.config.readings import read
from tests.unit.config.security.tls.issued import issue

ZOOKEEPER = "mm2.election = zookeeper\nmm2.zookeeper.connect = {}:2181\n"


def test_flows_and_log_level_are_applied(tmp_path: Path) -> None:
    began = read(tmp_path, "mm2.lanes = 1\n")
    levels = "mm2.log.level = DEBUG\nmm2.log.levels = mm2.kafka=INFO\n"
    found = in_force(began, read(tmp_path, f"topics = x\n{levels}mm2.lanes = 2\n"))
    assert [flow.source.topics for flow in found.flows if flow.enabled] == [("x",)]
    assert (found.own.log_level, found.own.log_levels, found.own.lanes) == ("DEBUG", ("mm2.kafka=INFO",), 1)


def test_election_settings_of_the_start_apply_to_new_flows(tmp_path: Path) -> None:
    began = read(tmp_path, ZOOKEEPER.format("old"))
    found = in_force(began, read(tmp_path, ZOOKEEPER.format("new") + "B->A.enabled = true\n"))
    assert [flow.election.servers for flow in found.flows if isinstance(flow.election, ZooKeeperSettings)] == [
        ("old:2181",)
    ] * 2
    assert [flow.election for flow in in_force(began, read(tmp_path)).flows if flow.election is None] == []


def test_election_backend_is_not_changed(tmp_path: Path) -> None:
    found = in_force(read(tmp_path), read(tmp_path, ZOOKEEPER.format("new")))
    assert {flow.election for flow in found.flows} == {None}


HTTPS = (
    "listeners = https://:8443\nlisteners.https.ssl.keystore.type = PEM\nlisteners.https.ssl.keystore.location = {}\n"
)


def test_listeners_take_over_renewed_certificates(tmp_path: Path) -> None:
    store = tmp_path / "node.pem"
    store.write_text("".join(issue("first")))
    lines = HTTPS.format(store)
    began = read(tmp_path, lines)
    second = issue("second")
    store.write_text("".join(second))
    now = read(tmp_path, f"{lines}listeners.https.ssl.client.auth = required\n")
    found = in_force(began, now).listening
    assert found.tls is not None
    assert found.peers == found.tls.tls
    assert (found.tls.tls.certificate_pem, found.tls.tls.key_pem) == (second[0].strip(), second[1].strip())
    assert found.tls.client_auth is ClientAuth.NONE, "needs a restart"
    (change,) = [one for one in compare(began, read(tmp_path, lines)).node if one.content]
    assert (change.key, change.update_mode) == ("listeners.https.ssl.keystore.location", UpdateMode.RUNNING)


def test_calls_to_other_nodes_take_over_a_renewed_trust_store(tmp_path: Path) -> None:
    store = tmp_path / "ca.pem"
    store.write_text(issue("first")[0])
    lines = "listeners = http://:8083\nrest.advertised.listener = https\nssl.truststore.type = PEM\n"
    lines += f"ssl.truststore.location = {store}\n"
    began = read(tmp_path, lines)
    store.write_text(issue("second")[0])
    found = in_force(began, read(tmp_path, lines)).listening
    assert found.tls is None
    assert found.peers is not None
    assert found.peers.ca_pem == store.read_text()


def test_new_https_listeners_need_a_restart(tmp_path: Path) -> None:
    began = read(tmp_path)
    (tmp_path / "node.pem").write_text("".join(issue("node")))
    now = read(tmp_path, HTTPS.format(tmp_path / "node.pem"))
    assert in_force(began, now).listening == began.settings.listening
    assert compare(began, now).node


def test_tokens_are_applied_and_the_admin_key_is_not(tmp_path: Path) -> None:
    admin = "listeners = http://127.0.0.1:8083\nmm2.rest.admin = {}\nmm2.rest.admin.token = open-sesame-open\n"
    lines = admin + "mm2.rest.tokens.file = tokens\nmm2.rest.read = {}\n"
    tokens = tmp_path / "tokens"
    tokens.write_text(f"alice viewer {'a' * 64}\n")
    began = read(tmp_path, lines.format("true", "open"))
    tokens.write_text(f"bob viewer {'b' * 64}\n")
    now = read(tmp_path, lines.format("false", "token"))
    found = in_force(began, now)
    assert [one.name for one in found.tokens] == ["bob"]
    assert (found.own.rest_read, {one.takes_commands for one in found.flows}) == ("open", {True})
    changes = {change.key: change.update_mode for change in compare(began, now).node}
    assert changes["mm2.rest.tokens.file"] is UpdateMode.RUNNING
    assert changes["mm2.rest.read"] is changes["mm2.rest.admin"] is UpdateMode.NODE


def test_path_of_the_tokens_is_applied(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).write_text(f"{name} viewer {'a' * 64}\n")
    began, now = (read(tmp_path, f"mm2.rest.tokens.file = {name}\n") for name in ("one", "two"))
    assert [one.name for one in in_force(began, now).tokens] == ["two"]
    (change,) = compare(began, now).node
    assert (change.old, change.new, change.content) == ("one", "two", False)
