"""Commands and the client library that connect to secured clusters themselves, without a node."""

from __future__ import annotations

import javaproperties
import pytest

from mm2.client import MirrorClient, MirrorClientConfig
from tests.lab import groups, scratch
from tests.lab.cluster import KafkaCluster
from tests.lab.commands import run
from tests.lab.fixtures import unique_name
from tests.lab.node import Node


def require_answers(
    node: Node, source: KafkaCluster, topic: str, source_lines: dict[str, str], env: dict[str, str]
) -> None:
    """Fail unless they answer about flow A->B of a node that has ended. ``source_lines``: the properties of A.
    ``env``: what logins need of the environment."""
    group = unique_name("readers")
    groups.commit(source, group, {(topic, 0): 1})
    config = scratch.directory("checker") / "client.properties"
    config.write_text(javaproperties.dumps(source_lines, timestamp=False))
    connection = ("--bootstrap-server", source_lines["bootstrap.servers"], "--command-config", str(config))
    for words, expected in (
        (("mm2", "lag", str(node.file)), topic),
        (("mm2", "losses", str(node.file)), "no losses"),
        (("mm2", "offsets", str(node.file), "--group", group), topic),
        (("kafka-consumer-offset-checker", "--group", group, *connection), topic),
    ):
        done = run(*words, env=env)
        assert done.code == 0, f"{words}: {done}"
        assert expected in done.stdout, f"{words}: {done}"
    with pytest.MonkeyPatch.context() as environment:
        for name, value in env.items():
            environment.setenv(name, value)
        with MirrorClient(MirrorClientConfig.from_file(node.file, "B")) as client:
            assert f"A.{topic}" in client.remote_topics("A")
