from __future__ import annotations

import pytest

from mm2.core.settings.client import ClientSettings, SecurityProtocol
from mm2.core.settings.sasl import PasswordLogin, SaslMechanism
from mm2.core.settings.tls import TlsSettings

LOGIN = PasswordLogin(mechanism=SaslMechanism.PLAIN, username="alice", password="geheim")


@pytest.mark.parametrize("protocol", SecurityProtocol)
def test_only_sasl_protocols_log_in(protocol: SecurityProtocol) -> None:
    client = ClientSettings(bootstrap_servers=("b1:9092",), security_protocol=protocol, sasl=LOGIN)
    assert client.login == (LOGIN if "SASL" in protocol else None)


def test_a_password_is_a_secret_and_the_user_is_not() -> None:
    assert (LOGIN.user, LOGIN.secrets) == ("alice", ("geheim",))
    assert "geheim" not in repr(LOGIN)


@pytest.mark.parametrize("protocol", SecurityProtocol)
def test_the_secrets_of_a_client(protocol: SecurityProtocol) -> None:
    """Those that the protocol does not use are secrets, too."""
    tls = TlsSettings(ca_pem="ca", certificate_pem="certificate", key_pem="key", key_password="sesame")
    client = ClientSettings(bootstrap_servers=("b1:9092",), security_protocol=protocol, tls=tls, sasl=LOGIN)
    assert client.secrets == ("key", "sesame", "geheim")
    assert ClientSettings(bootstrap_servers=("b1:9092",)).secrets == ()
