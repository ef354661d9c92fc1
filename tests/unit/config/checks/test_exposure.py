from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest

from mm2.cli.file.check import check_file

FLOW = "clusters = A, B\nA.bootstrap.servers = a:9092\nB.bootstrap.servers = b:9092\nA->B.enabled = true\n"
PLAIN = (
    "A.security.protocol = SASL_PLAINTEXT\nA.sasl.mechanism = PLAIN\n"
    "A.sasl.jaas.config = org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="u" password="{}";\n'
)
SCRAM = PLAIN.replace("PLAIN\n", "SCRAM-SHA-256\n").replace("plain.Plain", "scram.Scram")
ADMIN = "mm2.rest.admin = true\nmm2.rest.admin.token = {}\nlisteners = "
TOKEN = "0123456789abcdef"
ZOOKEEPER = "mm2.election = zookeeper\nmm2.zookeeper.connect = zk:2181\n"
AUTH = "mm2.zookeeper.auth.scheme = digest\nmm2.zookeeper.auth.username = u\nmm2.zookeeper.auth.password = p\n"


def warnings(directory: Path, lines: str, mode: int = 0o600) -> list[str]:
    path = directory / "mm2.properties"
    path.write_text(FLOW + lines)
    path.chmod(mode)
    out = StringIO()
    check_file(path, (), out, with_mode=True)
    return [line.partition(": warning: ")[2] for line in out.getvalue().splitlines() if ": warning: " in line]


@pytest.mark.parametrize(
    ("lines", "key", "rule"),
    [
        (PLAIN.format("sesame"), "A.sasl.mechanism", "the password is sent without encryption to every broker"),
        (SCRAM.format("sesame"), "", ""),
        (ADMIN.format(TOKEN) + "http://0.0.0.0:8083\n", "listeners", "http://0.0.0.0:8083 is not encrypted"),
        (ADMIN.format(TOKEN) + "http://[::1]:8083, http://localhost:8084\n", "", ""),
        ("listeners = http://0.0.0.0:8083\n", "", ""),
        ("access.control.allow.origin = *\n", "access.control.allow.origin", "every web page"),
        ("access.control.allow.origin = https://ops.example.com\n", "", ""),
        (ZOOKEEPER, "mm2.zookeeper.connect", "nodes do not authenticate"),
        (ZOOKEEPER + AUTH, "", ""),
    ],
)
def test_warnings(tmp_path: Path, lines: str, key: str, rule: str) -> None:
    found = warnings(tmp_path, lines)
    assert len(found) == bool(key)
    assert all(one.startswith(f"{key} = ") and rule in one for one in found)


@pytest.mark.parametrize(
    ("lines", "mode", "warned"),
    [
        (SCRAM.format("sesame"), 0o644, True),
        (SCRAM.format("sesame"), 0o640, False),
        ("A.ssl.truststore.password = sesame\nA.security.protocol = SSL\n", 0o604, True),
        ("mm2.rest.admin.token = 0123456789abcdef\n", 0o644, True),
        ("topics = orders\n", 0o644, False),
    ],
)
def test_a_file_with_a_secret_that_everyone_can_read(tmp_path: Path, lines: str, mode: int, warned: bool) -> None:
    found = [one for one in warnings(tmp_path, lines, mode) if "every user of this machine can read it" in one]
    assert len(found) == warned
    assert all(" = [hidden]: " in one and f"mode of the file is {mode:04o}" in one for one in found)


def test_references_are_no_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSWORD", "sesame-sesame-sesame")
    provider = (
        "config.providers = env\n"
        "config.providers.env.class = org.apache.kafka.common.config.provider.EnvVarConfigProvider\n"
        "mm2.rest.admin.token = ${env:PASSWORD}\n"
    )
    assert warnings(tmp_path, SCRAM.format("${env:PASSWORD}") + provider, 0o644) == []
