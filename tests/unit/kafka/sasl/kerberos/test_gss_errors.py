"""Codes of MIT's library; tests/integration/kerberos provokes them."""

from __future__ import annotations

import pytest

from mm2.kafka.sasl.kerberos.gss_errors import of_service, of_ticket

FAILURE, EXPIRED = 13 << 16, 11 << 16  # GSS_S_FAILURE, GSS_S_CREDENTIALS_EXPIRED
ALICE, KAFKA = "alice@MM2.TEST", "kafka/b1"


@pytest.mark.parametrize(
    ("minor", "words", "is_lasting"),
    [
        (2529638918, "does not know the principal alice@MM2.TEST", True),
        (2529638936, "rejects the key of alice@MM2.TEST", True),
        (2529638943, "rejects the key of alice@MM2.TEST", True),
        (2529638949, "clocks", False),
        (2529639068, "no KDC answers for alice@MM2.TEST", False),
        (-1765328228, "no KDC answers for alice@MM2.TEST", False),
        (7, "no ticket for alice@MM2.TEST: something else", False),
    ],
)
def test_tickets_of_principals(minor: int, words: str, is_lasting: bool) -> None:
    error = of_ticket(FAILURE, minor, "something else", ALICE)
    assert words in str(error)
    assert (error.key, error.is_lasting) == ("sasl.jaas.config", is_lasting)


def test_expiry_is_a_major_code() -> None:
    assert "has expired" in str(of_ticket(EXPIRED, 100001, "Success", ALICE))
    assert "has expired" in str(of_service(EXPIRED, 100001, "Success", ALICE, KAFKA))


def test_tickets_for_services() -> None:
    unknown = of_service(FAILURE, 2529638919, "", ALICE, KAFKA)
    assert "does not know the broker's principal kafka/b1" in str(unknown)
    assert unknown.key == "sasl.kerberos.service.name"
    other = of_service(FAILURE, 7, "something else", ALICE, KAFKA)
    assert (str(other), other.key) == (f"no ticket of {ALICE} for {KAFKA}: something else", "sasl.jaas.config")
