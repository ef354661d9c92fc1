"""Unsupported security settings: commands reject them before connecting, and print a working fix."""

from __future__ import annotations

from pathlib import Path

import javaproperties
import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from mm2.config.load import load
from tests.integration.security import Lines, flow_of, two_clusters
from tests.lab import jvm
from tests.lab.commands import run, run_within
from tests.lab.listeners import Authority

NOWHERE = {"bootstrap.servers": "127.0.0.1:1"}
STORE_PASSWORD = "sesame4711"
ANSWER = 60.0  # seconds for keytool, a JVM on busy cores
KEYTOOL = Path(jvm.java()).with_name("keytool")

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
        "GSSAPI is not supported",
    ),
    "GSSAPI, because it is the default": (
        SASL,
        "A.security.protocol = SASL_SSL",
        "requires A.sasl.mechanism, which is not set",
    ),
    "OAUTHBEARER": (
        {
            **SASL,
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
            f' clientSecret="{STORE_PASSWORD}";',
            "sasl.oauthbearer.token.endpoint.url": "https://login.example.com/token",
        },
        "A.sasl.mechanism = OAUTHBEARER",
        "OAUTHBEARER is not supported",
    ),
    "JKS, because it is the default": (
        {**TLS, "ssl.truststore.location": "/etc/kafka/trust.jks", "ssl.truststore.password": STORE_PASSWORD},
        "A.ssl.truststore.location = /etc/kafka/trust.jks",
        "JKS stores are not supported (A.ssl.truststore.type is JKS by default)",
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
        "PKCS12 stores are not supported",
    ),
}


@pytest.mark.parametrize(("lines", "place", "rule"), REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("command", ["run", "check"])
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


def test_fix_for_a_java_trust_store_works(tmp_path: Path) -> None:
    """Follows the fix literally, with a store created by Java's keytool."""
    authority = Authority()
    (tmp_path / "authority.pem").write_text(authority.ca_pem)
    store = tmp_path / "trust.jks"
    _keytool("-importcert -noprompt -alias lab -file", str(tmp_path / "authority.pem"), store=store)
    lines = {**TLS, "ssl.truststore.location": str(store), "ssl.truststore.password": STORE_PASSWORD}
    trusted = flow_of(_fixed(tmp_path, two_clusters(lines, NOWHERE))).clients.source_consumer.tls.ca_pem
    assert trusted is not None
    assert "".join(authority.ca_pem.split()) in "".join(trusted.split())


@pytest.mark.parametrize("store_type", ["JKS", "PKCS12"])
def test_fix_for_a_java_key_store_works(tmp_path: Path, store_type: str) -> None:
    store = tmp_path / "key.store"
    _keytool("-genkeypair -keyalg RSA -alias lab -dname CN=mm2 -storetype", store_type, store=store)
    lines = {
        **TLS,
        "ssl.keystore.type": store_type,
        "ssl.keystore.location": str(store),
        "ssl.keystore.password": STORE_PASSWORD,
    }
    tls = flow_of(_fixed(tmp_path, two_clusters(lines, NOWHERE))).clients.source_consumer.tls
    assert tls.certificate_pem is not None
    assert tls.key_pem is not None
    load_pem_private_key(tls.key_pem.encode(), password=STORE_PASSWORD.encode())


def _keytool(options: str, *more: str, store: Path) -> None:
    command = (str(KEYTOOL), *options.split(), *more, "-keystore", str(store), "-storepass", STORE_PASSWORD)
    run_within(ANSWER, command).check_returncode()


def _fixed(directory: Path, properties: Lines) -> dict[str, str]:
    """Return ``properties`` after applying each line of the fix of their only error."""
    (problem,) = [one for one in load(_write(directory, properties)).problems if not one.is_warning]
    fixed = dict(properties)
    what, *lines = problem.fix.split("\n")
    assert what == "replace PASSWORD with the password of the store, and run:"
    for line in (line.replace("PASSWORD", STORE_PASSWORD) for line in lines):
        verb, _, text = line.partition(" ")
        if line.startswith(("  keytool ", "  openssl ")):
            path = f"{KEYTOOL.parent}:/usr/bin:/bin"
            run_within(ANSWER, ["/bin/sh", "-c", line], cwd=directory, env={"PATH": path}).check_returncode()
        elif line.startswith("  "):
            key, _, value = line.strip().partition(" = ")
            fixed[key] = value
        elif line not in ("change to:", "add:"):
            assert verb == "remove", line
            del fixed[text]
    return fixed


def _write(directory: Path, properties: Lines) -> Path:
    file = directory / "mm2.properties"
    file.write_text(javaproperties.dumps(properties, timestamp=False))
    return file
