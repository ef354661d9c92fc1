"""Errors about the content of files that the configuration names: a node starts with them, and the flows of the cluster
wait."""

from __future__ import annotations

from pathlib import Path

import pytest

from mm2.config.clients.flow_clients import FlowClients
from mm2.config.keys.update_mode import UpdateMode
from mm2.config.load import Loaded
from mm2.config.reload.comparison import ParsedConfig, compare
from mm2.config.reload.sources import LoadedConfig, take
from mm2.core.settings.oauth import OAuthLogin, TokenEndpoint
from mm2.core.settings.sasl import SaslMechanism, UnusableLogin
from mm2.core.settings.tls import TlsSettings
from tests.unit.config.files import CLUSTERS, loaded
from tests.unit.config.security.kerberos.key_files import MM2, lines, place
from tests.unit.config.security.tls.issued import DAY, NOW, issue
from tests.unit.core.kerberos.formats import keytab_of

__all__ = ["place"]

PEM_STORE = "A.security.protocol = SSL\nA.ssl.keystore.type = PEM\nA.ssl.keystore.location = {}\n"
TRUST = "A.security.protocol = SSL\nA.ssl.truststore.type = PEM\nA.ssl.truststore.location = {}\n"
OAUTH = "org.apache.kafka.common.security.oauthbearer"
TOKEN = (
    "A.security.protocol = SASL_PLAINTEXT\nA.sasl.mechanism = OAUTHBEARER\n"
    f"A.sasl.login.callback.handler.class = {OAUTH}.OAuthBearerLoginCallbackHandler\n"
)
MODULE = f"A.sasl.jaas.config = {OAUTH}.OAuthBearerLoginModule required"


def clients(result: Loaded) -> FlowClients:
    """Return the clients with which a node starts in spite of an error."""
    assert result.settings is None, "mm2 check fails"
    assert result.of_node is not None, "\n".join(map(str, result.problems))
    return result.of_node.flows[0].clients


def rule(result: Loaded) -> str:
    (problem,) = result.problems
    assert problem.is_temporary
    return problem.rule


def login(result: Loaded) -> UnusableLogin:
    found = clients(result).source_consumer.sasl
    assert isinstance(found, UnusableLogin)
    assert (found.user, found.secrets) == ("", ())
    return found


def test_a_store_that_is_missing(tmp_path: Path) -> None:
    result = loaded(tmp_path, PEM_STORE.format("/none/me.pem"))
    unusable = "A.ssl.keystore.location = /none/me.pem: cannot be read (No such file or directory)"
    assert clients(result).source_consumer.tls.unusable == unusable
    assert clients(result).target_consumer.tls == TlsSettings()


@pytest.mark.parametrize("lines_of_store", [PEM_STORE, TRUST])
@pytest.mark.parametrize("content", ["", "-----BEGIN X-----"])
def test_a_store_that_is_being_written(tmp_path: Path, lines_of_store: str, content: str) -> None:
    (tmp_path / "store.pem").write_text(content)
    result = loaded(tmp_path, lines_of_store.format(tmp_path / "store.pem"))
    assert clients(result).source_consumer.tls.unusable is not None


@pytest.mark.parametrize("days", [(-2, -1), (1, 2)])
def test_a_certificate_outside_its_validity_is_tried(tmp_path: Path, days: tuple[int, int]) -> None:
    """Brokers decide by their own clocks."""
    begins, ends = (NOW + day * DAY for day in days)
    certificate, key = issue("me", begins=begins, ends=ends)
    (tmp_path / "me.pem").write_text(certificate + key)
    result = loaded(tmp_path, PEM_STORE.format(tmp_path / "me.pem"))
    tls = clients(result).source_consumer.tls
    assert "its certificate (CN=me)" in rule(result)
    assert tls.unusable is None
    assert tls.certificate_pem is not None


def test_mistakes_in_the_file_prevent_a_start(tmp_path: Path) -> None:
    result = loaded(tmp_path, PEM_STORE.format("/none/me.pem") + "tasks.max = 0\n")
    assert result.of_node is None
    inline = (
        "A.security.protocol = SSL\nA.ssl.truststore.type = PEM\nA.ssl.truststore.certificates = -----BEGIN X-----\n"
    )
    assert loaded(tmp_path, inline).of_node is None


def test_a_keytab_that_is_missing(place: Path) -> None:
    result = loaded(place, lines(f'useKeyTab=true keyTab="/none/mm2.keytab" principal="{MM2}"'))
    found = login(result)
    assert (found.mechanism, found.key) == (SaslMechanism.GSSAPI, "sasl.jaas.config")
    assert found.reason == "names the keytab /none/mm2.keytab, which cannot be read (No such file or directory)"


def test_a_keytab_of_a_jaas_file(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = f'com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab="/none" principal="{MM2}";'
    (place / "jaas.conf").write_text(f"KafkaClient {{\n  {module}\n}};\n")
    monkeypatch.setenv("KAFKA_OPTS", f"-Djava.security.auth.login.config={place}/jaas.conf")
    assert login(loaded(place, lines(""))).key == "security.protocol"


def test_a_krb5_conf_that_is_missing(place: Path) -> None:
    (place / "krb5.conf").unlink()
    result = loaded(place, lines(f'useKeyTab=true keyTab="{place}/mm2.keytab" principal="{MM2}"'))
    assert login(result).key == "security.protocol"


@pytest.mark.parametrize(
    ("more", "key"),
    [
        ("A.sasl.oauthbearer.token.endpoint.url = file:///none/token\n", "sasl.oauthbearer.token.endpoint.url"),
        (
            "A.sasl.oauthbearer.token.endpoint.url = http://127.0.0.1/\n"
            f"A.sasl.oauthbearer.jwt.retriever.class = {OAUTH}.JwtBearerJwtRetriever\n"
            "A.sasl.oauthbearer.assertion.file = /none/assertion\n",
            "sasl.oauthbearer.assertion.file",
        ),
    ],
)
def test_a_token_that_is_missing(tmp_path: Path, more: str, key: str) -> None:
    found = login(loaded(tmp_path, f"{TOKEN}{MODULE};\n{more}"))
    assert (found.mechanism, found.key) == (SaslMechanism.OAUTHBEARER, key)
    assert found.reason == "cannot be read (No such file or directory)"


def test_a_trust_store_of_an_endpoint_that_is_missing(tmp_path: Path) -> None:
    options = 'clientId="me" clientSecret="sesame" ssl.truststore.type=PEM ssl.truststore.location="/none/ca.pem"'
    result = loaded(
        tmp_path, f"{TOKEN}{MODULE} {options};\nA.sasl.oauthbearer.token.endpoint.url = https://127.0.0.1/\n"
    )
    found = clients(result).source_consumer.sasl
    assert isinstance(found, OAuthLogin)
    assert isinstance(found.source, TokenEndpoint)
    assert found.source.tls is not None
    assert "cannot be read" in (found.source.tls.unusable or "")
    assert "sesame" not in str(result.problems)


def mended(directory: Path, text: str, file: Path, content: bytes) -> list[tuple[str, bool, UpdateMode]]:
    """Return the changes of flow A->B after ``content`` was written to ``file``."""
    path = directory / "mm2.properties"
    path.write_text(CLUSTERS + text)
    before = take(path)
    assert [problem.is_temporary for problem in before.problems] == [True]
    file.write_bytes(content)
    after = take(path)
    assert not after.problems
    diff = compare(_reading(before), _reading(after))
    assert {flow.update_mode for flow in diff.changed} == {UpdateMode.FLOW}
    return [(change.key, change.content, change.update_mode) for change in diff.changed[0].changes]


def _reading(taken: LoadedConfig) -> ParsedConfig:
    assert taken.reading is not None
    return taken.reading


def test_a_store_that_is_there_restarts_the_flow(tmp_path: Path) -> None:
    store = tmp_path / "me.pem"
    found = mended(tmp_path, PEM_STORE.format(store), store, "".join(issue("me")).encode())
    assert found == [("A.ssl.keystore.location", True, UpdateMode.FLOW)]


def test_a_keytab_that_is_there_restarts_the_flow(place: Path) -> None:
    keytab = place / "new.keytab"
    text = lines(f'useKeyTab=true keyTab="{keytab}" principal="{MM2}"')
    assert mended(place, text, keytab, keytab_of(MM2)) == [("A.sasl.jaas.config", True, UpdateMode.FLOW)]


def test_a_krb5_conf_that_is_there_restarts_the_flow(place: Path) -> None:
    conf = place / "krb5.conf"
    content = conf.read_bytes()
    conf.unlink()
    text = lines(f'useKeyTab=true keyTab="{place}/mm2.keytab" principal="{MM2}"')
    assert mended(place, text, conf, content) == [("A.sasl.jaas.config", True, UpdateMode.FLOW)]
