"""Bags that keytool and openssl do not write. The others are in test_pkcs12.py."""

from __future__ import annotations

from mm2.config.security.tls.formats.der import EXPLICIT, OCTETS, SEQUENCE, encode, parse
from mm2.config.security.tls.formats.pkcs12 import read_pkcs12
from mm2.config.security.tls.formats.pkcs12_bags import CertificateBag, KeyBag, read_certificates
from tests.unit.config.security.tls.formats.golden import content, names

OID = 0x06
BAG, X509, SDSI = (
    encode(OID, bytes.fromhex(oid))
    for oid in ("2a864886f70d010c0a0103", "2a864886f70d01091601", "2a864886f70d01091602")
)


def test_other_certificates_than_x509() -> None:
    bags = b""
    for form in (X509, SDSI):
        pair = encode(SEQUENCE, form + encode(EXPLICIT, encode(OCTETS, b"certificate")))
        bags += encode(SEQUENCE, BAG + encode(EXPLICIT, pair))
    (found,) = read_certificates(parse(encode(SEQUENCE, bags)))
    assert found == CertificateBag(alias=None, key_id=None, certificate=b"certificate", is_trusted=False)


def test_alias_that_is_not_text() -> None:
    """The library reads it. The certificate of a store without private keys is trusted as one without attributes."""
    alias = "ca".encode("utf-16-be")
    damaged = content("trust-open.p12").replace(b"\x1e\x04" + alias, b"\x1e\x04\xd8\x00\x00a")
    assert damaged != content("trust-open.p12")
    assert names(read_pkcs12(damaged, None).anchors) == ["CN=Lab CA"]


def test_certificate_of_a_key() -> None:
    """The ID counts more than the alias, and a trusted certificate is an entry of its own."""
    key = KeyBag("a", b"1", b"key", is_encrypted=True)
    fits = [
        CertificateBag(alias, key_id, b"certificate", is_trusted=is_trusted).fit(key)
        for alias, key_id, is_trusted in (
            ("a", b"1", False),
            ("b", b"1", False),
            ("a", b"2", False),
            ("b", None, False),
            ("a", b"1", True),
        )
    ]
    assert fits == [3, 2, 1, 0, 0]
    assert (
        CertificateBag("b", None, b"certificate", is_trusted=False).fit(KeyBag("a", None, b"", is_encrypted=True)) == 0
    )
