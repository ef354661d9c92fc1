"""Java's default trust store, of a JRE that consists of these files only."""

from __future__ import annotations

from pathlib import Path
from shutil import copy

import pytest

from mm2.config.security.tls.default_trust import default_trust as read
from mm2.config.security.tls.formats.jks import JKS_MAGIC
from tests.unit.config.files import flow, loaded
from tests.unit.config.security.tls.formats.golden import STORES

CA, OTHER = (STORES / "ca.pem").read_text(), (STORES / "other.pem").read_text()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "lib" / "security").mkdir(parents=True)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("name", ["trust.jks", "trust-open.p12"])
def test_store_of_java_home(home: Path, name: str) -> None:
    copy(STORES / name, home / "lib" / "security" / "cacerts")
    assert read() == CA


def test_encrypted_store_has_the_usual_password(home: Path) -> None:
    copy(STORES / "trust.p12", home / "lib" / "security" / "cacerts")
    assert read() is None, "not its password"
    assert read(usual_password="sesame") == CA


def test_java_8_and_a_store_of_the_site(home: Path) -> None:
    old = home / "jre" / "lib" / "security"
    old.mkdir(parents=True)
    copy(STORES / "trust.jks", old / "cacerts")
    assert read() == CA
    copy(STORES / "mixed.jks", old / "jssecacerts")
    found = read()
    assert found is not None
    assert found.count("BEGIN CERTIFICATE") == 2, "jssecacerts takes precedence"


def test_a_replaced_store_is_read_again(home: Path) -> None:
    store = home / "lib" / "security" / "cacerts"
    copy(STORES / "trust.jks", store)
    assert read() == CA
    copy(STORES / "mixed.jks", store)
    assert read() != CA


def test_java_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "jdk"
    (home / "bin").mkdir(parents=True)
    (home / "lib" / "security").mkdir(parents=True)
    (home / "bin" / "java").write_text("#!/bin/sh\n")
    (home / "bin" / "java").chmod(0o755)
    (tmp_path / "java").symlink_to(home / "bin" / "java")
    copy(STORES / "trust.jks", home / "lib" / "security" / "cacerts")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert read() == CA
    monkeypatch.setenv("PATH", str(home))
    assert read() is None, "no Java, so the system's trust store is used"


def test_no_store_or_an_unreadable_one(home: Path) -> None:
    assert read() is None
    (home / "lib" / "security" / "cacerts").write_text("neither JKS nor PKCS12")
    assert read() is None


OPTION = "-Djavax.net.ssl.trustStore"
TLS = "A.security.protocol = SSL\n"


@pytest.mark.parametrize("name", ["trust.jks", "trust.jceks", "trust.p12"])
def test_a_store_that_the_options_of_java_name(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    copy(STORES / "mixed.jks", home / "lib" / "security" / "cacerts")
    monkeypatch.setenv("KAFKA_OPTS", f"{OPTION}={STORES / name} {OPTION}Password=sesame")
    assert flow(tmp_path, TLS).clients.source_consumer.tls.ca_pem == CA


@pytest.mark.parametrize(
    ("name", "password", "rule"),
    [
        ("none.jks", "sesame", "cannot be read (No such file or directory)"),
        ("trust.p12", None, f"requires {OPTION}Password"),
        ("trust.jks", "simsim", f"{OPTION}Password does not open"),
        ("make.sh", "sesame", "cannot be read as a key store"),
        ("secret.jceks", "sesame", "key"),
    ],
)
def test_a_store_of_the_options_that_cannot_be_used(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, password: str | None, rule: str
) -> None:
    """It is not replaced by another one, which trusts others."""
    copy(STORES / "trust.jks", home / "lib" / "security" / "cacerts")
    words = f"{OPTION}={STORES / name}" + ("" if password is None else f" {OPTION}Password={password}")
    monkeypatch.setenv("KAFKA_OPTS", words)
    (problem,) = loaded(tmp_path, TLS).problems
    assert (problem.key, problem.is_warning) == ("KAFKA_OPTS", False)
    assert rule in problem.rule
    assert "simsim" not in str(problem)


def test_an_empty_store_of_the_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = tmp_path / "empty.jks"
    empty.write_bytes(JKS_MAGIC + bytes((0, 0, 0, 2)) + bytes(4) + bytes(20))
    monkeypatch.setenv("KAFKA_OPTS", f"{OPTION}={empty}")
    (problem,) = loaded(tmp_path, TLS).problems
    assert problem.rule == f"{OPTION}={empty} contains no trusted certificate"
