"""The client's side of PLAIN and SCRAM, against the example of RFC 7677 and invalid brokers."""

from __future__ import annotations

import base64

import pytest

from mm2.core.settings.sasl import PasswordLogin, SaslMechanism
from mm2.kafka.sasl.logins import PasswordExchanges, _Scram

SALT = base64.b64encode(b"salt").decode()


def exchange(mechanism: SaslMechanism, **other: bool) -> PasswordExchanges:
    return PasswordExchanges(PasswordLogin(mechanism=mechanism, username="user", password="pencil", **other))


def scram() -> PasswordExchanges:
    return exchange(SaslMechanism.SCRAM_SHA_256)


def test_plain() -> None:
    messages = exchange(SaslMechanism.PLAIN).exchange("b1")
    assert next(messages) == b"\0user\0pencil"
    with pytest.raises(StopIteration):
        messages.send(b"")


def test_plain_has_no_challenge() -> None:
    messages = exchange(SaslMechanism.PLAIN).exchange("b1")
    next(messages)
    with pytest.raises(ValueError, match="challenge"):
        messages.send(b"more")


def test_scram_computes_the_proof_of_the_rfc() -> None:
    """The example of RFC 7677, section 3."""
    one = _Scram(PasswordLogin(mechanism=SaslMechanism.SCRAM_SHA_256, username="user", password="pencil"))
    one._nonce = "rOprNGfwEbeRWgbNEkqO"
    assert one.first_message() == "n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    one.process_server_first_message(f"r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")
    assert one.final_message() == f"c=biws,r={nonce},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    one.process_server_final_message("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


@pytest.mark.parametrize("iterations", [1, 4095, 1_000_001, 2**31])
def test_iterations_out_of_range(iterations: int) -> None:
    """Few would make the password easy to guess, many would keep the client busy."""
    messages = scram().exchange("b1")
    nonce = next(messages).decode().rpartition("r=")[2]
    with pytest.raises(ValueError, match=f"asks for {iterations} SCRAM iterations; allowed are 4096 to 1000000"):
        messages.send(f"r={nonce}x,s={SALT},i={iterations}".encode())


@pytest.mark.parametrize("iterations", [4096, 16_384])
def test_iterations_in_range(iterations: int) -> None:
    messages = scram().exchange("b1")
    nonce = next(messages).decode().rpartition("r=")[2]
    assert messages.send(f"r={nonce}x,s={SALT},i={iterations}".encode()).startswith(b"c=biws,r=")


def test_a_broker_that_does_not_know_the_password() -> None:
    messages = scram().exchange("b1")
    nonce = next(messages).decode().rpartition("r=")[2]
    messages.send(f"r={nonce}x,s={SALT},i=4096".encode())
    with pytest.raises(ValueError, match="wrong signature"):
        messages.send(b"v=" + base64.b64encode(bytes(32)))


def test_errors_of_the_broker() -> None:
    messages = scram().exchange("b1")
    next(messages)
    with pytest.raises(ValueError, match="the broker answered: other-error"):
        messages.send(b"e=other-error")


def test_a_nonce_of_another_client() -> None:
    messages = scram().exchange("b1")
    next(messages)
    with pytest.raises(ValueError, match="nonce"):
        messages.send(f"r=other,s={SALT},i=4096".encode())


def test_delegation_tokens_are_announced() -> None:
    messages = exchange(SaslMechanism.SCRAM_SHA_256, token_auth=True).exchange("b1")
    assert next(messages).endswith(b",tokenauth=true")


def test_passwords_need_no_renewal() -> None:
    login = scram()
    login.renew()
    assert not login.is_due
