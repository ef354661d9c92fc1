from __future__ import annotations

from dataclasses import replace

import pytest

from mm2.core.settings.client import ClientSettings, SecurityProtocol
from mm2.core.settings.kerberos import KerberosLogin
from mm2.core.settings.sasl import PasswordLogin, SaslMechanism, UnusableLogin
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


@pytest.mark.parametrize("protocol", SecurityProtocol)
def test_files_that_a_login_reads_again(protocol: SecurityProtocol) -> None:
    """Only if the protocol logs in."""
    keytab = KerberosLogin(service_name="kafka", principal="mm2@EXAMPLE.COM", keytab_file="/etc/mm2.keytab")
    client = ClientSettings(bootstrap_servers=("b1:9092",), security_protocol=protocol, sasl=keytab)
    assert client.files == (("/etc/mm2.keytab",) if "SASL" in protocol else ())
    assert replace(client, sasl=LOGIN).files == ()


def test_a_login_whose_file_cannot_be_read_has_no_secret() -> None:
    login = UnusableLogin(mechanism=SaslMechanism.PLAIN, reason="no such file", key="sasl.jaas.config")
    assert (login.user, login.secrets, login.files) == ("", (), ())
