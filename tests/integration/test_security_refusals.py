"""Security settings that cannot work: commands reject them before connecting. Stores of keytool are read."""

from __future__ import annotations

from pathlib import Path

import javaproperties
import pytest

from mm2.kafka.connection.security import ssl_context
from tests.integration.security import Lines, flow_of, two_clusters
from tests.lab import jvm
from tests.lab.commands import run, run_within

NOWHERE = {"bootstrap.servers": "127.0.0.1:1"}
STORE_PASSWORD = "sesame4711"
ANSWER = 60.0  # seconds for keytool, a JVM on busy cores
KEYTOOL = Path(jvm.java()).with_name("keytool")
GOLDEN = Path(__file__).parents[1] / "golden" / "stores"

SASL = {**NOWHERE, "security.protocol": "SASL_SSL"}
TLS = {**NOWHERE, "security.protocol": "SSL"}

ONCE = (("JKS", "RSA"), ("JCEKS", "Ed25519"), ("PKCS12", "EC"))

REFUSED: dict[str, tuple[Lines, str, str]] = {
    "Kerberos without credentials": (
        {
            **SASL,
            "sasl.mechanism": "GSSAPI",
            "sasl.jaas.config": f'com.sun.security.auth.module.Krb5LoginModule required x="{STORE_PASSWORD}";',
            "sasl.kerberos.service.name": "kafka",
        },
        "A.sasl.jaas.config = [hidden]",
        "names neither a keytab nor a ticket cache",
    ),
    "Kerberos, because it is the default": (
        SASL,
        "A.security.protocol = SASL_SSL",
        "requires A.sasl.jaas.config, which is not set; sasl.mechanism is GSSAPI by default",
    ),
    "OAUTHBEARER without a client ID": (
        {
            **SASL,
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
            f' clientSecret="{STORE_PASSWORD}";',
            "sasl.login.callback.handler.class": "org.apache.kafka.common.security.oauthbearer"
            ".OAuthBearerLoginCallbackHandler",
            "sasl.oauthbearer.token.endpoint.url": "https://login.example.com/token",
        },
        "A.sasl.oauthbearer.token.endpoint.url = https://login.example.com/token",
        "requires A.sasl.oauthbearer.client.credentials.client.id, which is not set",
    ),
    "missing JKS trust store": (
        {**TLS, "ssl.truststore.location": "/etc/kafka/trust.jks", "ssl.truststore.password": STORE_PASSWORD},
        "A.ssl.truststore.location = /etc/kafka/trust.jks",
        "cannot be read (No such file or directory)",
    ),
    "wrong password of a JKS trust store": (
        {**TLS, "ssl.truststore.location": str(GOLDEN / "trust.jks"), "ssl.truststore.password": STORE_PASSWORD},
        "A.ssl.truststore.password = [hidden]",
        "does not open ",
    ),
    "wrong password of a private key": (
        {
            **TLS,
            "ssl.keystore.location": str(GOLDEN / "identity.jks"),
            "ssl.keystore.password": "sesame",
            "ssl.key.password": STORE_PASSWORD,
        },
        "A.ssl.key.password = [hidden]",
        "does not decrypt the private key",
    ),
}


WAITED_FOR = "missing JKS trust store"  # flows wait for it: tests/integration/test_store_renewal.py
# the rules themselves: tests/unit/config/security
IN_THE_GATE = (
    ("check", WAITED_FOR),
    ("check", "OAUTHBEARER without a client ID"),
    ("run", "wrong password of a private key"),
)


@pytest.mark.parametrize(
    ("command", "lines", "place", "rule"),
    [
        pytest.param(
            *(command, *REFUSED[name]),
            id=f"{command}-{name}",
            marks=() if (command, name) in IN_THE_GATE else pytest.mark.long,
        )
        for command in ("run", "check")
        for name in REFUSED
        if (command, name) != ("run", WAITED_FOR)
    ],
)
def test_exit_code_and_error(tmp_path: Path, command: str, lines: Lines, place: str, rule: str) -> None:
    file = _write(tmp_path, two_clusters(lines, NOWHERE))
    outcome = run("mm2", command, str(file))
    assert outcome.code == 2
    output = outcome.stderr if command == "run" else outcome.stdout
    (problem,) = [line for line in output.splitlines() if ": error: " in line]
    number = next(
        n for n, line in enumerate(file.read_text().splitlines(), 1) if line.startswith(place.partition(" ")[0])
    )
    assert problem.startswith(f"{file}:{number}: error: {place}: ")
    assert rule in problem
    assert STORE_PASSWORD not in outcome.stdout + outcome.stderr
    assert "Traceback" not in outcome.stdout + outcome.stderr


@pytest.mark.parametrize(
    ("store_type", "algorithm"),
    [  # in the gate, each type and each algorithm once
        pytest.param(store_type, algorithm, marks=() if (store_type, algorithm) in ONCE else pytest.mark.long)
        for store_type in ("JKS", "JCEKS", "PKCS12")
        for algorithm in ("RSA", "EC", "Ed25519")
    ],
)
def test_key_store_that_keytool_generated(tmp_path: Path, store_type: str, algorithm: str) -> None:
    store = tmp_path / "key.store"
    _keytool("-genkeypair -alias lab -dname CN=mm2 -keyalg", algorithm, "-storetype", store_type, store=store)
    lines = {
        **TLS,
        "ssl.keystore.type": store_type,
        "ssl.keystore.location": str(store),
        "ssl.keystore.password": STORE_PASSWORD,
    }
    tls = flow_of(two_clusters(lines, NOWHERE)).clients.source_consumer.tls
    assert tls.certificate_pem is not None
    ssl_context(tls)  # with the key


def _keytool(options: str, *more: str, store: Path) -> None:
    command = (str(KEYTOOL), *options.split(), *more, "-keystore", str(store), "-storepass", STORE_PASSWORD)
    run_within(ANSWER, command).check_returncode()


def _write(directory: Path, properties: Lines) -> Path:
    file = directory / "mm2.properties"
    file.write_text(javaproperties.dumps(properties, timestamp=False))
    return file
