from __future__ import annotations

import getpass
import os
import sys
from pathlib import Path

import pytest

from mm2.config.security.kerberos.krb5_files import default_ticket_cache
from mm2.core.settings.kerberos import TicketRenewal
from tests.unit.config import files
from tests.unit.config.security.kerberos.key_files import MM2, MODULE, lines, login, nameless, place, problem
from tests.unit.core.kerberos.formats import cache_of, keytab_of, tgt_of

__all__ = ["nameless", "place"]

IBM = "com.ibm.security.auth.module.Krb5LoginModule"


def keytab(directory: Path, more: str = f'principal="{MM2}"') -> str:
    return f'useKeyTab=true storeKey=true keyTab="{directory}/mm2.keytab" {more}'.strip()


def cache(directory: Path, more: str = "") -> str:
    return f'useTicketCache=true ticketCache="{directory}/mm2.cache" {more}'.strip()


def test_keytab(place: Path) -> None:
    found = login(place, keytab(place))
    assert (found.principal, found.service_name, found.user) == (MM2, "kafka", MM2)
    assert (found.keytab, found.keytab_file) == (None, f"{place}/mm2.keytab")
    assert found.krb5_conf == (place / "krb5.conf").read_text()
    assert found.renewal == TicketRenewal()
    assert found.ticket_cache_file is None
    assert found.files == (found.keytab_file,)
    assert found.secrets == ()


def test_ticket_cache(place: Path) -> None:
    found = login(place, cache(place, "renewTGT=true doNotPrompt=true"))
    assert found.principal == MM2
    assert found.ticket_cache_file == str(place / "mm2.cache")
    assert found.files == (found.ticket_cache_file,)


def test_the_cache_comes_before_the_keytab(place: Path) -> None:
    both = f"{keytab(place)} {cache(place)}"
    found = login(place, both)
    assert found.files == (f"{place}/mm2.keytab", f"{place}/mm2.cache")
    (place / "mm2.cache").unlink()
    assert login(place, both).ticket_cache_file is None
    (place / "mm2.cache").write_bytes(cache_of(MM2, tgt_of(MM2)))
    (place / "mm2.keytab").unlink()
    assert login(place, both).keytab_file is None


def test_renewal_keys(place: Path) -> None:
    more = ("kinit.cmd = /opt/kinit", "ticket.renew.window.factor = 0.5", "ticket.renew.jitter = 0.1d")
    written = (f"sasl.kerberos.{line}" for line in (*more, "min.time.before.relogin = 1500"))
    found = login(place, keytab(place), *written)
    assert found.renewal == TicketRenewal(window_factor=0.5, jitter=0.1, min_seconds=1.5, kinit="/opt/kinit")


def test_invalid_renewal_keys(place: Path) -> None:
    found = problem(place, keytab(place), "sasl.kerberos.ticket.renew.jitter = much")
    assert (found.key, found.rule) == ("A.sasl.kerberos.ticket.renew.jitter", "must be a number")


@pytest.mark.parametrize("prefix", ["FILE:", "file:", "ANY:FILE:"])
def test_prefixes_of_keytabs(place: Path, prefix: str) -> None:
    assert login(place, f'useKeyTab=TRUE keyTab="{prefix}{place}/mm2.keytab" principal=mm2').principal == MM2


def test_default_places(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "mm2.keytab").rename(place / "krb5.keytab")
    assert login(place, f'useKeyTab=true principal="{MM2}"').keytab_file is not None
    (place / "krb5.keytab").rename(place / "other.keytab")
    (place / "krb5.conf").write_text(f"[libdefaults]\ndefault_keytab_name = FILE:{place}/other.keytab\n")
    assert login(place, f'useKeyTab=true principal="{MM2}"').keytab_file is not None
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{place}/mm2.cache")
    assert login(place, "useTicketCache=true").ticket_cache_file == f"{place}/mm2.cache"
    monkeypatch.delenv("KRB5CCNAME")
    assert default_ticket_cache() == f"/tmp/krb5cc_{os.getuid()}", "where kinit writes it"


def test_without_a_principal_java_takes_the_user(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "mm2")
    assert login(place, keytab(place, more="")).principal == MM2
    assert "must have the option principal" in problem(place, keytab(place, more="doNotPrompt=true")).rule


@pytest.mark.usefixtures("nameless")
def test_a_user_without_name_and_home(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert login(place, keytab(place)).principal == MM2
    found = problem(place, keytab(place, more=""))
    assert found.rule.endswith("must have the option principal")
    assert 'principal="NAME@REALM"' in found.fix
    for module, options, option in ((MODULE, "useKeyTab", "keyTab"), (IBM, "useDefaultKeytab", "useKeytab")):
        found = problem(place, f'{options}=true principal="{MM2}"', module=module)
        assert f"must have the option {option}: krb5.conf has no default_keytab_name, and this user no" in found.rule
        assert f'{option}="FILE"' in found.fix
    (place / "mm2.keytab").rename(place / "krb5.keytab")
    monkeypatch.setenv("KAFKA_OPTS", f"-Duser.home={place}")
    assert login(place, f'useKeyTab=true principal="{MM2}"').keytab_file is not None


def test_the_login_module_of_ibm(place: Path) -> None:
    found = login(place, f'useKeytab="file://{place}/mm2.keytab" credsType=initiator principal="{MM2}"', module=IBM)
    assert (found.principal, found.ticket_cache_file) == (MM2, None)
    assert login(place, f'useCcache="file:{place}/mm2.cache"', module=IBM).principal == MM2
    (place / "mm2.keytab").rename(place / "krb5.keytab")
    assert login(place, f'useDefaultKeytab=true principal="{MM2}"', module=IBM).keytab_file is not None
    assert "must have the option principal" in problem(place, "useDefaultKeytab=true", module=IBM).rule
    (place / "mm2.cache").unlink()
    assert "has useCcache, but" in problem(place, f'useCcache="{place}/mm2.cache"', module=IBM).rule


def test_default_ticket_cache_of_ibm(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRB5CCNAME", str(place / "mm2.cache"))
    found = login(place, "useDefaultCcache=true", module=IBM)
    assert found.ticket_cache_file == f"{place}/mm2.cache"


def test_service_name(place: Path) -> None:
    no_key = "sasl.kerberos.service.name ="
    assert login(place, keytab(place, f'principal="{MM2}" serviceName=broker'), no_key.replace(" =", " = broker"))
    assert login(place, keytab(place, f'principal="{MM2}" serviceName=kafka')).service_name == "kafka"
    found = problem(place, keytab(place, f'principal="{MM2}" serviceName=broker'))
    assert (found.key, found.rule) == (
        "A.sasl.kerberos.service.name",
        "conflicts with serviceName=broker of the login module",
    )
    found = problem(place, keytab(place), no_key)
    assert found.rule == (
        "requires A.sasl.kerberos.service.name, which is not set, or the option serviceName of the login module"
    )
    assert found.fix_lines[-1] == "  A.sasl.kerberos.service.name = kafka"


@pytest.mark.parametrize(
    ("options", "rule", "fix"),
    [
        (
            'keyTab="k" useTicketCache=true',
            "has keyTab, which is not used without useKeyTab=true",
            "add useKeyTab=true",
        ),
        (
            'ticketCache="c" useKeyTab=true',
            "has ticketCache, which is not used without useTicketCache=true",
            "add useTicketCache=true",
        ),
        (
            "useKeyTab=true renewTGT=true",
            "has renewTGT=true, which requires useTicketCache=true",
            "remove renewTGT=true",
        ),
        (
            "useTicketCache=true storeKey=true doNotPrompt=true",
            "has storeKey=true, which requires useKeyTab=true",
            "remove storeKey=true",
        ),
        (
            "useKeyTab=false",
            "names neither a keytab nor a ticket cache: Java would ask for a password",
            'add useKeyTab=true keyTab="FILE" principal="NAME@REALM"',
        ),
    ],
)
def test_options_that_java_rejects(place: Path, options: str, rule: str, fix: str) -> None:
    found = problem(place, options)
    assert (found.key, found.line, found.rule, found.fix) == ("A.sasl.jaas.config", 6, rule, fix)


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (None, "cannot be read (No such file or directory)"),
        (b"no", "is not a keytab"),
        (keytab_of("bob@X", "eve@X"), "contains no key of mm2@MM2.TEST but bob@X, eve@X"),
        (keytab_of(), "contains no key of mm2@MM2.TEST but no principal"),
    ],
)
def test_unusable_keytabs(place: Path, content: bytes | None, rule: str) -> None:
    (place / "mm2.keytab").unlink()
    if content is not None:
        (place / "mm2.keytab").write_bytes(content)
    found = problem(place, keytab(place))
    assert found.rule == f"names the keytab {place}/mm2.keytab, which {rule}"


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (None, "cannot be read (No such file or directory)"),
        (b"no", "is not a ticket cache (version 4 of the format)"),
        (cache_of("bob@X", tgt_of("bob@X")), "contains the ticket of bob@X, not of mm2@MM2.TEST"),
    ],
)
def test_unusable_ticket_caches(place: Path, content: bytes | None, rule: str) -> None:
    (place / "mm2.cache").unlink()
    if content is not None:
        (place / "mm2.cache").write_bytes(content)
    found = problem(place, cache(place, "principal=mm2"))
    assert found.rule == f"has useTicketCache=true, but ticket cache {place}/mm2.cache {rule}"
    assert found.fix_lines[-1] == f"  kinit -c {place}/mm2.cache {MM2}"


def test_ticket_caches_that_are_no_files(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRB5CCNAME", "KCM:")
    found = problem(place, "useTicketCache=true")
    assert found.rule == "has useTicketCache=true, but ticket cache KCM: is not a file, which Java requires too"
    assert found.fix_lines[1:] == ("  kinit -c FILE NAME@REALM", 'and add ticketCache="FILE"')


def test_a_principal_without_a_realm(place: Path) -> None:
    (place / "krb5.conf").write_text("")
    found = problem(place, keytab(place, "principal=mm2"))
    assert found.rule == "has principal mm2 without a realm, and krb5.conf has no default_realm"
    assert found.fix == 'write principal="mm2@REALM"'


def test_a_cache_without_a_ticket_and_no_principal_to_fall_back_on(place: Path) -> None:
    (place / "mm2.cache").unlink()
    assert problem(place, f"{keytab(place, more='')} {cache(place)}").rule == "must have the option principal"


@pytest.mark.parametrize(
    ("more", "key"), [((), "A.security.protocol"), (("sasl.mechanism = GSSAPI",), "A.sasl.mechanism")]
)
def test_without_the_package(place: Path, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...], key: str) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    found = problem(place, keytab(place), *more)
    assert (found.key, found.rule) == (key, "GSSAPI requires the Python package gssapi, which is not installed")
    assert found.fix_lines[-1] == "  pip install --require-hashes -r requirements-kerberos.lock"


def test_unreadable_krb5_conf(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRB5_CONFIG", str(place / "missing"))
    found = problem(place, keytab(place))
    assert found.key == "A.security.protocol"
    assert found.rule == f"requires {place}/missing, which cannot be read (No such file or directory)"


def test_the_login_module_of_another_mechanism(place: Path) -> None:
    plain = "org.apache.kafka.common.security.plain.PlainLoginModule"
    found = problem(place, 'username="u" password="p"', module=plain)
    assert found.rule == "must have the login module of sasl.mechanism = GSSAPI (the default)"


def test_without_a_login_module(place: Path) -> None:
    (found,) = files.loaded(place, lines("")).problems
    assert found.rule == "requires A.sasl.jaas.config, which is not set; sasl.mechanism is GSSAPI by default"
    assert found.fix_lines[0] == "replace FILE and NAME@REALM, and add:"
