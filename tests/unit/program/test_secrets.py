"""What must not be in a log line, wherever it comes from."""

from __future__ import annotations

import base64
import io
import logging
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows import log_lines
from mm2.config.grammar.problems import ProblemLog
from mm2.config.load import load
from mm2.config.security.sasl_properties import SaslProperties
from mm2.config.security.security_keys import SecurityKeys
from mm2.core.coordination.session_keys import SESSION_KEY, SessionKey, encode_session_key
from mm2.core.masking import HIDDEN, Mask, Renewed, hide, masked
from mm2.core.oauth.tokens import BearerToken
from mm2.core.settings.client import ClientSettings
from mm2.core.settings.oauth import OAuthLogin, TokenFile
from mm2.core.settings.sasl import PasswordLogin, SaslMechanism
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.logs.stored_records import StoredRecord
from mm2.kafka.sasl.oauthbearer import OAuthBearerLogin
from mm2.node.engine.tokens import new_token
from mm2.node.store.config_store import ConfigStore
from mm2.program.logs import set_up
from tests.lab.tasks import unconnected_cluster
from tests.unit.config.files import flow

CLUSTERS = "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"
PROVIDERS = (
    "config.providers = env, file\n"
    "config.providers.env.class = org.apache.kafka.common.config.provider.EnvVarConfigProvider\n"
    "config.providers.file.class = org.apache.kafka.common.config.provider.FileConfigProvider\n"
)


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """The log of a node that does not know the secrets of other tests of this process."""
    for name, value in vars(Mask()).items():
        monkeypatch.setattr(masked, name, value)
    root = logging.getLogger()
    handlers, level, stream = root.handlers[:], root.level, io.StringIO()
    set_up(stream=stream)
    yield stream
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(False)


def shown(text: str, stream: io.StringIO) -> str:
    """Return what the log shows of a text."""
    stream.truncate(0)
    stream.seek(0)
    logging.getLogger("mm2.node").info("it is %s", text)
    return stream.getvalue().partition("it is ")[2].rstrip("\n")


def test_values_of_secret_keys(tmp_path: Path, logged: io.StringIO) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(
        CLUSTERS + "mm2.rest.admin.token = admin-sesame-0123\nmm2.rest.admin = true\nlisteners = http://127.0.0.1:0\n"
        "spark.authenticate.secret = spark-sesame\nspark.app.name = mirror-name\n"
        "A.ssl.truststore.password = store-sesame\nB.ssl.key.password = key-sesame\n"
        "mm2.zookeeper.auth.password = zoo-sesame\n"
    )
    load(file)
    for secret in ("admin-sesame-0123", "spark-sesame", "store-sesame", "key-sesame", "zoo-sesame"):
        assert shown(secret, logged) == HIDDEN
    assert shown("mirror-name", logged) == "mirror-name"


def test_what_config_providers_return_also_when_it_is_renewed(
    tmp_path: Path, logged: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"OPTIONS": "-Dkey=provided-sesame", "BROKERS": "broker-a:9092", "PROTOCOL": "SASL_SSL"}.items():
        monkeypatch.setenv(f"MM2_{name}", value)
    secrets = tmp_path / "secrets"
    secrets.write_text("client = client-sesame-1\n")
    file = tmp_path / "mm2.properties"
    file.write_text(
        CLUSTERS.replace("a:1", "${env:MM2_BROKERS}")
        + PROVIDERS
        + "spark.driver.extraJavaOptions = ${env:MM2_OPTIONS}\n"
        f"client.rack = rack-${{file:{secrets}:client}}\nsecurity.protocol = ${{env:MM2_PROTOCOL}}\n"
    )
    load(file)
    assert shown("-Dkey=provided-sesame", logged) == HIDDEN
    assert shown("rack-client-sesame-1", logged) == f"rack-{HIDDEN}"
    assert shown("broker-a:9092 of SASL_SSL", logged) == "broker-a:9092 of SASL_SSL", "lines are about addresses"
    secrets.write_text("client = client-sesame-2\n")
    assert shown("client-sesame-2", logged) == "client-sesame-2", "nobody has read it"
    load(file)
    assert shown("client-sesame-2 client-sesame-1", logged) == f"{HIDDEN} {HIDDEN}"


def test_passwords_of_clients(logged: io.StringIO) -> None:
    login = PasswordLogin(mechanism=SaslMechanism.PLAIN, username="reader", password="client-of-its-own")
    Cluster(ClientSettings(client_id="c", bootstrap_servers=(), sasl=login))
    assert shown("reader client-of-its-own", logged) == f"reader {HIDDEN}"


def test_tokens_of_engine_and_lanes(logged: io.StringIO) -> None:
    assert shown(new_token(), logged) == HIDDEN


def test_the_session_key_of_the_config_topic(tmp_path: Path, logged: io.StringIO) -> None:
    key = SessionKey(secret=bytes(range(1, 33)), algorithm="HmacSHA256", created_ms=1)
    store = ConfigStore(flow(tmp_path), unconnected_cluster(), on_change=lambda: None, on_command=lambda _: None)
    value = encode_session_key(key)
    store._take(StoredRecord(partition=0, offset=0, key=SESSION_KEY, value=value, timestamp=0))
    assert store.session_key == key
    assert base64.b64encode(key.secret).decode().rstrip("=") not in shown(value.decode(), logged)
    assert shown(repr(key.secret), logged) == f"b'{HIDDEN}'"


def test_oauth_tokens(logged: io.StringIO) -> None:
    class Source:
        key = "sasl.oauthbearer.token.endpoint.url"
        if_expired = "check the clocks"
        issued = 0

        def token(self) -> BearerToken:
            self.issued += 1
            return BearerToken(value=f"oauth-sesame-{self.issued}", expires_at=time.time() + 3_600)

    for _ in range(2):
        login = OAuthBearerLogin(OAuthLogin(source=TokenFile(file="unused")), Source())
        login.renew()
    assert shown("oauth-sesame-1", logged) == HIDDEN


def test_files_that_clients_read_again(tmp_path: Path, logged: io.StringIO) -> None:
    properties = SaslProperties({}, SecurityKeys(), SaslMechanism.OAUTHBEARER, ProblemLog("f"), {})
    file = tmp_path / "token"
    file.write_text("token-of-a-file\n")
    properties.reread_file(file, file.read_bytes())
    assert shown("token-of-a-file", logged) == HIDDEN
    assert shown(base64.b64encode(file.read_bytes()).decode().rstrip("="), logged) == HIDDEN


def test_lanes_hide_what_they_know(capsys: pytest.CaptureFixture[str]) -> None:
    """The node does not know tokens that a lane has obtained."""
    root = logging.getLogger()
    handlers = root.handlers[:]
    levels = {name: logging.getLogger(name).level for name in ("mm2", "flows", "py4j")}
    try:
        log_lines.set_up()
        log_lines.set_up()  # Spark reuses processes
        (own,) = [one for one in root.handlers if isinstance(one.formatter, log_lines.RelayedLines)]
        hide("token-of-a-lane", kind=Renewed.OAUTH_TOKEN)
        record = logging.LogRecord("mm2.lane", logging.WARNING, "f", 1, "rejected: %s", ("token-of-a-lane",), None)
        assert own.format(record) == f"WARNING mm2.lane rejected: {HIDDEN}"
    finally:
        root.handlers[:] = handlers
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
