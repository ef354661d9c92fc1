from __future__ import annotations

import sys

import pytest

from mm2.core.settings.kerberos import KerberosLogin
from mm2.kafka.sasl.kerberos.kerberos_tickets import kerberos_login
from mm2.kafka.sasl.login import LoginFailed


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """On an executor whose archive was packed without it."""
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(LoginFailed, match=r"gssapi cannot be loaded .*: run pip install 'mm2\[kerberos\]'") as error:
        kerberos_login(KerberosLogin(service_name="kafka", principal="alice@A"))
    assert error.value.key == "sasl.mechanism"
