"""Security that cannot be honoured: refused by the commands before anything connects, with a repair that works."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import javaproperties
import pytest

from mm2.config.load import load
from tests.integration.security import Lines, flow_of, two_clusters
from tests.lab import jvm
from tests.lab.commands import run
from tests.lab.listeners import Authority

NOWHERE = {"bootstrap.servers": "127.0.0.1:1"}
STORE_PASSWORD = "sesame4711"
ANSWER = 30  # seconds for keytool

SASL = {**NOWHERE, "security.protocol": "SASL_SSL"}
TLS = {**NOWHERE, "security.protocol": "SSL"}

REFUSED: dict[str, tuple[Lines, str, str]] = {
    "GSSAPI": (
        {
            **SASL,
            "sasl.mechanism": "GSSAPI",
            "sasl.jaas.config": f'com.sun.security.auth.module.Krb5LoginModule required x="{STORE_PASSWORD}";',
            "sasl.kerberos.service.name": "kafka",
        },
        "A.sasl.mechanism = GSSAPI",
        "GSSAPI comes with a later release",
    ),
    "GSSAPI, because it is the default": (SASL, "A.security.protocol = SASL_SSL", "Add sasl.mechanism"),
    "OAUTHBEARER": (
        {
            **SASL,
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
            f' clientSecret="{STORE_PASSWORD}";',
            "sasl.oauthbearer.token.endpoint.url": "https://login.example.com/token",
        },
        "A.sasl.mechanism = OAUTHBEARER",
        "OAUTHBEARER comes with a later release",
    ),
    "JKS, because it is the default": (
        {**TLS, "ssl.truststore.location": "/etc/kafka/trust.jks", "ssl.truststore.password": STORE_PASSWORD},
        "A.ssl.truststore.location = /etc/kafka/trust.jks",
        "ssl.truststore.type = JKS comes with a later release",
    ),
    "PKCS12 key store": (
        {
            **TLS,
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": "/etc/kafka/key.p12",
            "ssl.keystore.password": STORE_PASSWORD,
            "ssl.key.password": STORE_PASSWORD,
        },
        "A.ssl.keystore.location = /etc/kafka/key.p12",
        "ssl.keystore.type = PKCS12 comes with a later release",
    ),
}


@pytest.mark.parametrize(("lines", "place", "rule"), REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("command", ["run", "check"])
def test_exit_code_and_sentence(tmp_path: Path, command: str, lines: Lines, place: str, rule: str) -> None:
    file = _write(tmp_path, two_clusters(lines, NOWHERE))
    outcome = run("mm2", command, str(file))
    assert outcome.code == 2
    said = outcome.stderr if command == "run" else outcome.stdout
    (problem,) = [line for line in said.splitlines() if not line.startswith("warning: ")]
    number = next(
        n for n, line in enumerate(file.read_text().splitlines(), 1) if line.startswith(place.partition(" ")[0])
    )
    assert problem.startswith(f"{file}:{number} {place}  ")
    assert rule in problem
    assert STORE_PASSWORD not in outcome.stdout + outcome.stderr
    assert "Traceback" not in outcome.stdout + outcome.stderr


def test_the_repair_of_a_java_trust_store_works(tmp_path: Path) -> None:
    """What the sentence says is done word by word, with a store that Java's keytool made."""
    authority = Authority()
    (tmp_path / "authority.pem").write_text(authority.ca_pem)
    store = tmp_path / "trust.jks"
    keytool = str(Path(jvm.java()).with_name("keytool"))
    made = (keytool, "-importcert", "-noprompt", "-alias", "lab", "-file", str(tmp_path / "authority.pem"))
    subprocess.run([*made, "-keystore", str(store), "-storepass", STORE_PASSWORD], check=True, timeout=ANSWER)
    lines = {**TLS, "ssl.truststore.location": str(store), "ssl.truststore.password": STORE_PASSWORD}

    (problem,) = [one for one in load(_write(tmp_path, two_clusters(lines, NOWHERE))).problems if not one.is_warning]
    advice = re.search(r"Convert it with (.*), and write (.*)\.$", problem.text)
    assert advice, problem.text
    command, (key, value) = advice[1], advice[2].split(" = ")
    path = f"{Path(keytool).parent}:/usr/bin:/bin"
    subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=tmp_path,
        env={"PATH": path},
        input=f"{STORE_PASSWORD}\n",
        text=True,
        check=True,
        timeout=ANSWER,
    )
    repaired = {**TLS, "ssl.truststore.location": str(tmp_path / "ca.pem"), key: value}
    trusted = flow_of(two_clusters(repaired, NOWHERE)).clients.source_consumer.tls.ca_pem
    assert trusted is not None
    assert "".join(authority.ca_pem.split()) in "".join(trusted.split())


def _write(directory: Path, properties: Lines) -> Path:
    file = directory / "mm2.properties"
    file.write_text(javaproperties.dumps(properties, timestamp=False))
    return file
