"""Consumer and producer files: defaults of MirrorMaker 1, problems, and what both files must have."""

from __future__ import annotations

from pathlib import Path

import pytest

from mm2.core.mirror1.settings import GroupMembership
from mm2.core.settings.client import OffsetReset, SecurityProtocol
from mm2.core.settings.zookeeper_connect import ZooKeeperConnect
from tests.unit.config.mirror1.files import CONSUMER, PRODUCER, loaded, messages, settings


def test_defaults(tmp_path: Path) -> None:
    found = settings(tmp_path)
    (consumer,) = found.consumers
    assert consumer.file == str(tmp_path / "consumer.properties")
    assert consumer.client.bootstrap_servers == ("a:9092",)
    assert consumer.client.client_id == "mirror"
    assert consumer.client.alias == ""
    assert consumer.group == GroupMembership(group_id="mirror")
    assert consumer.fetch.auto_offset_reset is OffsetReset.LATEST  # Java's default, other than in mm2.properties
    assert consumer.exclude_internal_topics
    assert consumer.zookeeper is None
    assert found.target.client_id == "kafka-mirror-maker"
    assert (found.produce.acks, found.produce.idempotent, found.produce.max_in_flight) == (-1, True, 5)
    assert found.lane_buffer_bytes == 64 * 1024 * 1024
    assert found.spark == {}
    assert loaded(tmp_path).problems == ()


def test_group_membership(tmp_path: Path) -> None:
    lines = (
        "session.timeout.ms=10000\nheartbeat.interval.ms=2000\nmax.poll.interval.ms=60000\ngroup.instance.id=m1\n"
        "exclude.internal.topics=false\nfetch.min.bytes=10\n"
        "partition.assignment.strategy=org.apache.kafka.clients.consumer.RangeAssignor,a.B\n"
    )
    (consumer,) = settings(tmp_path, lines).consumers
    assert consumer.group == GroupMembership(
        group_id="mirror",
        session_timeout_ms=10_000,
        heartbeat_interval_ms=2_000,
        max_poll_interval_ms=60_000,
        instance_id="m1",
    )
    assert consumer.fetch.min_bytes == 10
    assert not consumer.exclude_internal_topics


def test_producer(tmp_path: Path) -> None:
    lines = "client.id=mine\nacks=1\nbuffer.memory=33554432\nspark.driver.memory=1g\nspark.master=local[2]\n"
    found = settings(tmp_path, "", lines)
    assert found.target.client_id == "mine"
    assert (found.produce.acks, found.produce.idempotent, found.produce.max_in_flight) == (1, False, 1)
    assert found.lane_buffer_bytes == 32 * 1024 * 1024
    assert found.spark == {"spark.driver.memory": "1g", "spark.master": "local[2]"}
    assert settings(tmp_path, "", "max.in.flight.requests.per.connection=1\n").produce.max_in_flight == 1


def test_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What another user of the machine may not see of it, and what it gets from the environment."""
    monkeypatch.setenv("ACME_TOKEN", "sesame")
    provider = "config.providers=env\nconfig.providers.env.class="
    provider += "org.apache.kafka.common.config.provider.EnvVarConfigProvider\n"
    spark = "spark.driver.extraJavaOptions=-Dkey=${env:ACME_TOKEN}\nspark.hadoop.key=${env:ACME_TOKEN}\nspark.x=y\n"
    found = settings(tmp_path, "", f"{provider}{spark}mm2.engine.environment=ACME_TOKEN, AWS_*\n")
    assert found.spark["spark.hadoop.key"] == "sesame"
    assert found.hidden_spark == {"spark.driver.extraJavaOptions", "spark.hadoop.key"}
    assert found.inherited == ("ACME_TOKEN", "AWS_*")
    assert "sesame" not in repr(found)


def test_security_has_no_prefix(tmp_path: Path) -> None:
    login = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    found = settings(tmp_path, f'{login}sasl.jaas.config={module} username="u" password="sesame";\n')
    assert found.consumers[0].client.security_protocol is SecurityProtocol.SASL_PLAINTEXT
    wrong = loaded(tmp_path, login)
    assert wrong.settings is None
    assert any("sasl.jaas.config" in message and "A." not in message for message in messages(wrong))


def test_values_of_config_providers(tmp_path: Path) -> None:
    (tmp_path / "secrets.properties").write_text("group = hidden-group\n")
    lines = (
        "bootstrap.servers=a:9092\nconfig.providers=f\n"
        "config.providers.f.class=org.apache.kafka.common.config.provider.FileConfigProvider\n"
        f"group.id=${{f:{tmp_path}/secrets.properties:group}}\n"
    )
    found = loaded(tmp_path, start=(lines, PRODUCER))
    assert found.settings is not None
    assert found.problems == ()
    assert found.settings.consumers[0].group.group_id == "hidden-group"


JAVA = "org.apache.kafka.clients.consumer."


@pytest.mark.parametrize(
    ("written", "assignors"),
    [
        ("range", ("range",)),
        ("roundrobin", ("roundrobin",)),
        (f"{JAVA}RoundRobinAssignor", ("roundrobin",)),
        (f"{JAVA}RoundRobinAssignor, {JAVA}RangeAssignor", ("roundrobin", "range")),
        (f"{JAVA}RangeAssignor,{JAVA}CooperativeStickyAssignor,range", ("range",)),
    ],
)
def test_assignors_in_the_order_of_the_file(written: str, assignors: tuple[str, ...], tmp_path: Path) -> None:
    (consumer,) = settings(tmp_path, f"partition.assignment.strategy={written}\n").consumers
    assert consumer.group.assignors == assignors


@pytest.mark.parametrize("written", [f"{JAVA}StickyAssignor", ""])
def test_other_assignors(written: str, tmp_path: Path) -> None:
    (problem,) = loaded(tmp_path, f"partition.assignment.strategy={written}\n").problems
    assert problem.rule == "has no assignor that is supported here: range and roundrobin are"
    assert problem.fix.endswith("first in the files of all members of the group, and restart them, or stop all of them")


PROBLEMS_OF_CONSUMER = {
    "max.poll.record=1": "3: warning: max.poll.record = 1: unknown property, ignored",
    "colour=red": "3: warning: colour = red: unknown property, ignored",
    "linger.ms=1": "3: warning: linger.ms = 1: unknown property, ignored",
    "acks=all": "3: warning: acks = all: has no effect: it is a property of the producer",
    "broker.list=x": "3: warning: broker.list = x: has no effect: it is a property of the producer",
    "spark.master=local[2]": "3: warning: spark.master = local[2]: has no effect: it is a property of the producer",
    "interceptor.classes=a.B": "3: warning: interceptor.classes = a.B: has no effect: Java classes cannot be loaded",
    "heartbeat.interval.ms=45000": "3: error: heartbeat.interval.ms = 45000: heartbeat.interval.ms must be less than",
    "session.timeout.ms=1000": "3: error: session.timeout.ms = 1000: heartbeat.interval.ms must be less than",
    "ssl.keystore.location=k.jks": "3: warning: ssl.keystore.location = k.jks: ssl.* has no effect because security",
    "fetch.min.bytes=many": "3: error: fetch.min.bytes = many: must be a whole number",
}
PROBLEMS_OF_PRODUCER = {
    "group.id=x": "2: warning: group.id = x: has no effect: it is a property of the consumer",
    "delivery.timeout.ms=120000": "2: warning: delivery.timeout.ms = 120000: has no effect: a batch is retried until",
    "buffer.memory=1": "2: error: buffer.memory = 1: must be at least 1048576",
    "spark.master=nonsense": "2: error: spark.master = nonsense: must be local[4], spark://host:7077",
    "spark.master=yarn": "2: error: spark.master = yarn: must be on this machine",
    "spark.master=spark://127.0.0.1:7077": "2: error: spark.master = spark://127.0.0.1:7077: requires authentication",
    "spark.authenticate=false": "2: error: spark.authenticate = false: must be true",
    "mm2.engine.environment=A B": "2: error: mm2.engine.environment = A B: must be comma-separated names",
    "spark.remote=sc://x": "2: error: spark.remote = sc://x: not supported: lanes need the SparkContext",
    "mirror.topics.whitelist=a": "2: warning: mirror.topics.whitelist = a: has no effect: it is a property of the con",
}
SILENT_OF_CONSUMER = ("max.poll.records=1", "metric.reporters=", "receive.buffer.bytes=-1")
SILENT_OF_PRODUCER = ("linger.ms=1", "delivery.timeout.ms=2147483647", "max.block.ms=9223372036854775807")


@pytest.mark.parametrize(("line", "message"), PROBLEMS_OF_CONSUMER.items(), ids=str)
def test_problem_in_consumer(line: str, message: str, tmp_path: Path) -> None:
    assert messages(loaded(tmp_path, line))[0].startswith(f"consumer.properties:{message}")


def test_a_wrong_offset_reset_names_the_default_of_a_consumer(tmp_path: Path) -> None:
    (problem,) = loaded(tmp_path, "auto.offset.reset=erliest\n").problems
    assert problem.headline.endswith("auto.offset.reset = erliest: must be earliest, latest or none")
    assert problem.fix == "remove the line to use the default (latest)"


@pytest.mark.parametrize(("line", "message"), PROBLEMS_OF_PRODUCER.items(), ids=str)
def test_problem_in_producer(line: str, message: str, tmp_path: Path) -> None:
    assert messages(loaded(tmp_path, "", line))[0].startswith(f"producer.properties:{message}")


def test_properties_that_change_nothing_are_accepted_silently(tmp_path: Path) -> None:
    found = loaded(tmp_path, "\n".join(SILENT_OF_CONSUMER), "\n".join(SILENT_OF_PRODUCER))
    assert messages(found) == []


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (None, "error: does not exist"),
        (b"", "error: contains no settings"),
        (b"\xff\xfea\0", "error: is not a text file (UTF-16?)"),
        (
            b"clusters = A, B\n",
            "error: clusters = A, B: is an mm2.properties file, not the configuration of a consumer",
        ),
        (b"group.id=x\n", "error: bootstrap.servers: missing"),
        (b"bootstrap.servers=a:9092\n", "error: group.id: missing"),
        (b"bootstrap.servers=a\ngroup.id=x\n", "error: bootstrap.servers = a: must be a comma-separated host:port"),
    ],
)
def test_unusable_file_has_one_error(content: bytes | None, rule: str, tmp_path: Path) -> None:
    file = tmp_path / "other.properties"
    if content is not None:
        file.write_bytes(content)
    found = loaded(tmp_path, consumer_files=(file,))
    assert found.settings is None
    (message,) = messages(found)
    assert message.split(": ", 1)[1].startswith(rule)


def test_directory_and_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = loaded(tmp_path, producer_file=tmp_path)
    assert [problem.rule for problem in found.problems] == ["is a directory"]

    def refuse(_: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    found = loaded(tmp_path)
    assert [problem.rule for problem in found.problems] == ["cannot be read (Permission denied)"] * 2


def test_brokers_in_zookeeper(tmp_path: Path) -> None:
    start = ("zk.connect=z1,z2:2182/kafka\ngroupid=g\noffsets.storage=kafka\n", "zookeeper.connect=z3\nacks=1\n")
    found = loaded(tmp_path, start=start)
    assert found.settings is not None
    (consumer,) = found.settings.consumers
    assert consumer.client.bootstrap_servers == ()
    assert consumer.zookeeper == ZooKeeperConnect(servers=("z1:2181", "z2:2182"), chroot="/kafka")
    assert found.settings.target.bootstrap_servers == ()
    assert found.settings.target_zookeeper == ZooKeeperConnect(servers=("z3:2181",), chroot="")
    assert [line for line in messages(found) if "old:" in line] == [
        "consumer.properties:1: warning: zk.connect = z1,z2:2182/kafka: old: the addresses of the brokers are read from"
        " ZooKeeper at the start",
        "producer.properties:1: warning: zookeeper.connect = z3: old: the addresses of the brokers are read from"
        " ZooKeeper at the start",
    ]


@pytest.mark.parametrize(
    ("lines", "is_read"),
    [
        ("zookeeper.connect=z\n", True),
        ("zookeeper.connect=z\noffsets.storage=ZooKeeper\n", True),
        ("zookeeper.connect=z\noffsets.storage=kafka\n", False),
        ("zookeeper.connect=z\nbootstrap.servers=a:9092\n", False),
        ("bootstrap.servers=a:9092\n", False),
    ],
)
def test_offsets_in_zookeeper_are_read_if_the_old_consumer_has_them_there(
    tmp_path: Path, lines: str, is_read: bool
) -> None:
    found = loaded(tmp_path, start=(f"{lines}group.id=g\n", PRODUCER))
    assert found.settings is not None
    assert found.settings.consumers[0].has_old_offsets is is_read
    warning = "offsets of the group that Kafka does not have are read from ZooKeeper at the start"
    assert any(warning in line for line in messages(found)) is is_read


def test_wrong_zookeeper(tmp_path: Path) -> None:
    found = loaded(tmp_path, start=("zookeeper.connect=z:port\ngroup.id=g\n", PRODUCER))
    assert found.settings is None
    assert messages(found)[0].startswith("consumer.properties:1: error: zookeeper.connect = z:port: must be host:port")


def test_same_cluster_on_both_sides(tmp_path: Path) -> None:
    found = loaded(tmp_path, start=(CONSUMER, "bootstrap.servers=b:9092,a:9092\n"))
    assert found.settings is None
    assert messages(found) == [
        "consumer.properties:1: error: bootstrap.servers = a:9092: a:9092 is a broker of the target, too: each record"
        " would be copied again without end"
    ]


def test_a_misspelt_secret_is_hidden(tmp_path: Path) -> None:
    (problem,) = loaded(tmp_path, "sasl.jass.config=open-sesame\n").problems
    assert (problem.value, problem.fix) == ("[hidden]", "did you mean sasl.jaas.config?")
