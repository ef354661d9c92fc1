"""Clients with Kerberos: a keytab, a ticket cache and krb5.conf in a directory, and files that use them."""

from __future__ import annotations

import pwd
import sys
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from pathlib import Path

import pytest

from mm2.config.grammar.problems import Problem
from mm2.core.settings.kerberos import KerberosLogin
from tests.unit.config import files
from tests.unit.core.kerberos.formats import cache_of, keytab_of, tgt_of

MM2 = "mm2@MM2.TEST"
MODULE = "com.sun.security.auth.module.Krb5LoginModule"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with mm2.keytab, mm2.cache and krb5.conf, which is that of the process. gssapi is installed."""
    (tmp_path / "mm2.keytab").write_bytes(keytab_of(MM2))
    (tmp_path / "mm2.cache").write_bytes(cache_of(MM2, tgt_of(MM2)))
    (tmp_path / "krb5.conf").write_text("[libdefaults]\n  default_realm = MM2.TEST\n")
    monkeypatch.setenv("KRB5_CONFIG", str(tmp_path / "krb5.conf"))
    monkeypatch.delenv("KAFKA_OPTS", raising=False)
    monkeypatch.delenv("KRB5CCNAME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setitem(sys.modules, "gssapi", module_from_spec(ModuleSpec("gssapi", None)))
    return tmp_path


@pytest.fixture
def nameless(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process has a user ID without an entry in /etc/passwd, as in OpenShift, and no HOME."""

    def missing(uid: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    for name in ("HOME", "LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", missing)


def lines(options: str, *more: str, module: str = MODULE) -> str:
    """Return the lines of cluster A for a login module with these options."""
    jaas = (f"sasl.jaas.config = {module} required {options};",) if options else ()
    service = () if any("kerberos.service" in line for line in more) else ("sasl.kerberos.service.name = kafka",)
    return "".join(f"A.{line}\n" for line in ("security.protocol = SASL_SSL", *jaas, *service, *more))


def login(directory: Path, options: str, *more: str, module: str = MODULE) -> KerberosLogin:
    """Return the login of A's clients."""
    found = files.flow(directory, lines(options, *more, module=module)).clients.source_consumer.sasl
    assert isinstance(found, KerberosLogin)
    return found


def problem(directory: Path, options: str, *more: str, module: str = MODULE) -> Problem:
    """Return the only problem of the file."""
    (found,) = files.loaded(directory, lines(options, *more, module=module)).problems
    return found
