"""Kafka's own RemoteClusterUtils and MirrorClient, through java/RemoteClusterAnswers.java, and `mm2.client`."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from mm2.client import MirrorClient, OffsetAndMetadata, TopicPartition
from tests.lab import jars, jvm, scratch

PROGRAM = "RemoteClusterAnswers"
SOURCE = Path(__file__).parent / "java" / f"{PROGRAM}.java"
COMPILE_TIMEOUT = 120.0  # seconds; takes two on an idle machine
RUN_TIMEOUT = 120.0  # seconds for a start of Java and some dozens of short-lived clients; takes ten on an idle machine

Offsets = dict[TopicPartition, OffsetAndMetadata]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Queries to the cluster that ``properties`` connect to.

    They cover hops and remote topics of ``aliases``, and translated offsets of ``groups``, and of groups that match
    ``pattern`` (Java's syntax), from cluster ``remote``. ``timeout`` in seconds applies to each translation. Java's
    client has brokers create a missing checkpoints topic.
    """

    properties: Mapping[str, str]
    aliases: Sequence[str] = ()
    remote: str | None = None
    groups: Sequence[str] = ()
    pattern: str | None = None
    timeout: float = 30.0

    def line(self) -> str:
        """Return the JSON line that java/RemoteClusterAnswers.java reads."""
        return json.dumps(
            {
                "properties": dict(self.properties),
                "aliases": list(self.aliases),
                "remote": self.remote,
                "groups": list(self.groups),
                "pattern": self.pattern,
                "timeoutMs": round(self.timeout * 1000),
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """Results for one cluster.

    ``replication_hops`` is -1 for an alias without a path. ``translated`` has the groups requested by name,
    ``matching`` those that match the pattern.
    """

    heartbeat_topics: set[str]
    checkpoint_topics: set[str]
    upstream_clusters: set[str]
    remote_topics: set[str]
    remote_topics_of: dict[str, set[str]]
    replication_hops: dict[str, int]
    translated: dict[str, Offsets]
    matching: dict[str, Offsets]

    @classmethod
    def read(cls, line: str) -> Answers:
        """Parse a line printed by RemoteClusterAnswers.java."""
        answer = json.loads(line)
        return cls(
            heartbeat_topics=set(answer["heartbeatTopics"]),
            checkpoint_topics=set(answer["checkpointTopics"]),
            upstream_clusters=set(answer["upstreamClusters"]),
            remote_topics=set(answer["remoteTopics"]),
            remote_topics_of={alias: set(topics) for alias, topics in answer["remoteTopicsOf"].items()},
            replication_hops=answer["replicationHops"],
            translated={group: _offsets(rows) for group, rows in answer["translated"].items()},
            matching={group: _offsets(rows) for group, rows in answer["matching"].items()},
        )


def ask_java(*questions: Question) -> list[Answers]:
    """Return the results of Kafka's own classes, using one Java process for all questions.

    Raises CalledProcessError with Java's stack trace in its notes.
    """
    found = [Answers.read(line) for line in _run("".join(f"{one.line()}\n" for one in questions)).splitlines()]
    assert len(found) == len(questions)
    return found


def ask_mm2(question: Question) -> Answers:
    """Return the results of `mm2.client` in the same form."""
    with MirrorClient(question.properties) as client:
        hops = {alias: client.replication_hops(alias) for alias in question.aliases}
        remote = question.remote or ""
        return Answers(
            heartbeat_topics=client.heartbeat_topics(),
            checkpoint_topics=client.checkpoint_topics(),
            upstream_clusters=client.upstream_clusters(),
            remote_topics=client.remote_topics(),
            remote_topics_of={alias: client.remote_topics(alias) for alias in question.aliases},
            replication_hops={alias: -1 if way is None else way for alias, way in hops.items()},
            translated={
                group: client.remote_consumer_offsets(group, remote, question.timeout) for group in question.groups
            },
            matching={}
            if question.pattern is None
            else client.remote_consumer_offsets(re.compile(question.pattern), remote, question.timeout),
        )


def _offsets(rows: Iterable[Any]) -> Offsets:
    return {
        TopicPartition(topic, partition): OffsetAndMetadata(offset, metadata)
        for topic, partition, offset, metadata in rows
    }


def _run(questions: str) -> str:
    class_path = f"{_compiled()}:{jars.class_path(jars.KAFKA_4)}"
    command = (jvm.java(), "-Xmx256m", *jvm.QUICK_START, *jvm.log_options("error"), "-cp", class_path, PROGRAM)
    outcome = subprocess.run(
        command, input=questions, capture_output=True, encoding="utf-8", timeout=RUN_TIMEOUT, check=False
    )
    try:
        outcome.check_returncode()
    except subprocess.CalledProcessError as problem:
        problem.add_note(outcome.stderr[-4000:])
        raise
    return outcome.stdout


@cache
def _compiled() -> Path:
    """Compile the program once per run and return its directory."""
    classes = scratch.directory("remote-cluster-answers")
    command = (jvm.javac(), "-encoding", "utf-8", "-cp", jars.class_path(jars.KAFKA_4), "-d", str(classes), str(SOURCE))
    subprocess.run(command, timeout=COMPILE_TIMEOUT, check=True)
    return classes
