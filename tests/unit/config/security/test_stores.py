"""Stores that are not PEM, or not declared as PEM. More messages: tests/snapshots/config/bad/security-tls.txt."""

from __future__ import annotations

from pathlib import Path
from shutil import copy

import pytest

from mm2.config.grammar.problems import Problem
from mm2.config.load import load
from tests.unit.config.files import CLUSTERS

PEM = Path(__file__).parents[3] / "snapshots" / "config" / "pem"
PKCS12 = b"\x30\x82\x05\x00"
JKS = b"\xfe\xed\xfe\xed"


def problem(directory: Path, lines: str, level: str = "A.") -> Problem:
    """Return the only problem of the store described by ``lines``, keys without their ssl. prefix."""
    written = "".join(f"{level}ssl.{line}\n" for line in lines.splitlines())
    file = directory / "mm2.properties"
    file.write_text(f"{CLUSTERS}A.security.protocol = SSL\n{written}", "iso-8859-1")
    (found,) = [one for one in load(file).problems if not one.is_warning]
    return found


def test_pem_store_without_a_type_needs_no_conversion(tmp_path: Path) -> None:
    """Regression test: the suggested command truncated this file."""
    copy(PEM / "ca.pem", tmp_path / "ca.pem")
    found = problem(tmp_path, f"truststore.location = {tmp_path / 'ca.pem'}")
    assert found.rule == "is a PEM file, but A.ssl.truststore.type is JKS by default"
    assert found.fix == "add A.ssl.truststore.type = PEM"


def test_pem_store_declared_as_another_type(tmp_path: Path) -> None:
    found = problem(
        tmp_path, f"truststore.type = PKCS12\ntruststore.location = {PEM / 'ca.pem'}\ntruststore.password = x"
    )
    assert found.fix == "write A.ssl.truststore.type = PEM\nremove A.ssl.truststore.password"


def test_a_trust_store_is_converted_to_a_new_file(tmp_path: Path) -> None:
    store = tmp_path / "trust.jks"
    store.write_bytes(JKS)
    (tmp_path / "trust-ca.pem").write_text("of another program")
    (tmp_path / "trust-2-ca.pem").symlink_to("nowhere")
    found = problem(tmp_path, f"truststore.location = {store}\ntruststore.password = sesame")
    pem = tmp_path / "trust-3-ca.pem"
    assert found.rule == "JKS stores are not supported (A.ssl.truststore.type is JKS by default)"
    assert found.fix.split("\n") == [
        "replace PASSWORD with the password of the store, and run:",
        f"  keytool -list -rfc -keystore {store} -storepass PASSWORD > {pem}",
        "change to:",
        f"  A.ssl.truststore.location = {pem}",
        "add:",
        "  A.ssl.truststore.type = PEM",
        "remove A.ssl.truststore.password",
    ]


def test_paths_are_quoted_for_the_shell(tmp_path: Path) -> None:
    found = problem(tmp_path, f"truststore.location = {tmp_path}/my trust.jks")
    assert f"-keystore '{tmp_path}/my trust.jks' -storepass PASSWORD > '{tmp_path}/my trust-ca.pem'" in found.fix
    assert f"change to:\n  A.ssl.truststore.location = {tmp_path}/my trust-ca.pem\n" in found.fix


@pytest.mark.parametrize("level", ["A.", "", "A.producer."])
def test_a_key_store_gets_a_password_for_its_key(tmp_path: Path, level: str) -> None:
    store = tmp_path / "key.jks"
    store.write_bytes(JKS)
    level = "A.consumer." if level == "A.producer." else level
    found = problem(tmp_path, f"keystore.location = {store}\nkeystore.password = sesame", level)
    _, command, *lines = found.fix.split("\n")
    assert command == (
        f"  keytool -importkeystore -srckeystore {store} -srcstorepass PASSWORD"
        f" -destkeystore {tmp_path}/key-identity.p12 -deststoretype PKCS12 -deststorepass PASSWORD"
        f" && openssl pkcs12 -in {tmp_path}/key-identity.p12 -passin pass:PASSWORD"
        f" -out {tmp_path}/key-identity.pem -passout pass:PASSWORD"
    )
    assert lines == [
        "change to:",
        f"  {level}ssl.keystore.location = {tmp_path}/key-identity.pem",
        "add:",
        f"  {level}ssl.keystore.type = PEM",
        f"  {level}ssl.key.password = PASSWORD",
        f"remove {level}ssl.keystore.password",
    ]


def test_a_pkcs12_key_store_needs_one_step(tmp_path: Path) -> None:
    store = tmp_path / "key.p12"
    store.write_bytes(PKCS12)
    found = problem(tmp_path, f"keystore.type = PKCS12\nkeystore.location = {store}\nkey.password = sesame")
    assert found.rule == "PKCS12 stores are not supported"
    _, command, *lines = found.fix.split("\n")
    assert command.startswith(f"  openssl pkcs12 -in {store} -passin pass:PASSWORD -out ")
    assert lines == [
        "change to:",
        "  A.ssl.keystore.type = PEM",
        f"  A.ssl.keystore.location = {tmp_path}/key-identity.pem",
    ]


def test_store_declared_as_pem_is_not_pem(tmp_path: Path) -> None:
    store = tmp_path / "trust.pem"
    store.write_bytes(JKS)
    found = problem(tmp_path, f"truststore.type = PEM\ntruststore.location = {store}")
    assert (found.rule, "ssl.truststore.type" in found.fix) == ("is not a PEM file", False)
    assert f"> {tmp_path}/trust-ca.pem\n" in found.fix


def test_invalid_path(tmp_path: Path) -> None:
    assert "cannot be read" in problem(tmp_path, "truststore.type = PEM\ntruststore.location = a\\u0000b").rule
