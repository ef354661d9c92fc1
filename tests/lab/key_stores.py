"""Key stores of Java's types with a test's certificates, as its own keytool writes them."""

from __future__ import annotations

import subprocess
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key, pkcs12
from cryptography.x509 import load_pem_x509_certificate, load_pem_x509_certificates

from tests.lab import jvm
from tests.lab.listeners import ClientPems

STORE_PASSWORD = "store = sesame; 1"  # characters that break bad quoting
TYPES = ("JKS", "JCEKS", "PKCS12")
TIMEOUT = 60.0  # seconds for a JVM that does almost nothing


def write_key_store(path: Path, pems: ClientPems, store_type: str, *, key_password: str = STORE_PASSWORD) -> Path:
    """Write a store with one private key, under `STORE_PASSWORD`, and return its path. PKCS12 has one password only."""
    certificates = load_pem_x509_certificates(pems.certificate.encode())
    key = load_pem_private_key(pems.key.encode(), None)
    assert isinstance(key, EllipticCurvePrivateKey | RSAPrivateKey)
    source = path.with_suffix(".source")
    source.write_bytes(
        pkcs12.serialize_key_and_certificates(
            b"client", key, certificates[0], certificates[1:], BestAvailableEncryption(STORE_PASSWORD.encode())
        )
    )
    _keytool(
        "-importkeystore",
        *("-srckeystore", str(source), "-srcstoretype", "PKCS12", "-srcstorepass", STORE_PASSWORD),
        *("-destkeystore", str(path), "-deststoretype", store_type, "-deststorepass", STORE_PASSWORD),
        *("-srcalias", "client", "-destkeypass", key_password),
    )
    return path


def write_trust_store(path: Path, ca_pem: str, store_type: str) -> Path:
    """Write a store with one trusted certificate, under `STORE_PASSWORD`, and return its path."""
    load_pem_x509_certificate(ca_pem.encode())
    source = path.with_suffix(".source")
    source.write_text(ca_pem)
    _keytool(
        *("-importcert", "-alias", "ca", "-file", str(source)),
        *("-keystore", str(path), "-storetype", store_type, "-storepass", STORE_PASSWORD),
    )
    return path


def _keytool(*arguments: str) -> None:
    keytool = Path(jvm.java()).resolve().with_name("keytool")
    command = (str(keytool), *arguments, "-noprompt")
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
