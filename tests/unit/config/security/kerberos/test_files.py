"""Files that logins are read from, which a node watches."""

from __future__ import annotations

from pathlib import Path

import pytest

from mm2.config.grammar.values import Properties
from mm2.config.load import load_file
from mm2.config.reload.comparison import compare
from mm2.config.reload.sources import login_files, named_files
from tests.unit.config.files import CLUSTERS
from tests.unit.config.readings import read
from tests.unit.config.security.kerberos.key_files import MM2, MODULE, lines, place
from tests.unit.core.kerberos.formats import cache_of, keytab_of, tgt_of

__all__ = ["place"]


def options(directory: Path) -> str:
    keytab = f'useKeyTab=true keyTab="{directory}/mm2.keytab" principal="{MM2}"'
    return f'{keytab} useTicketCache=true ticketCache="{directory}/mm2.cache"'


def watched(directory: Path, text: str) -> set[str]:
    return {path.name for path in named_files(read(directory, text).file, directory)}


def test_files_of_a_login(place: Path) -> None:
    assert watched(place, lines(options(place))) == {"mm2.keytab", "mm2.cache", "krb5.conf"}


def test_without_sasl_there_are_none(place: Path) -> None:
    text = lines(options(place)).replace("SASL_SSL", "SSL")
    assert watched(place, text) == set()


def test_the_jaas_file(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_OPTS", f"-Djava.security.auth.login.config=={place}/jaas.conf")
    (place / "jaas.conf").write_text(f"KafkaClient {{ {MODULE} required {options(place)}; }};")
    text = lines("")
    assert watched(place, text) == {"jaas.conf", "mm2.keytab", "mm2.cache", "krb5.conf"}


def test_errors_do_not_matter(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The errors of a file that is not valid (yet) are reported by its reader."""

    def properties(options: str) -> Properties:
        path = place / "mm2.properties"
        path.write_text(CLUSTERS + lines(options))
        file = load_file(path)[1]
        assert file is not None
        return file.properties

    assert login_files(properties("renewTGT=true")) == {place / "krb5.conf"}
    assert login_files(properties("useKeyTab")) == set()
    valid = properties(options(place))
    monkeypatch.setenv("KRB5_CONFIG", str(place / "missing"))
    assert {path.name for path in login_files(valid)} == {"mm2.keytab", "mm2.cache", "missing"}
    monkeypatch.setenv("KAFKA_OPTS", f"-Djava.security.auth.login.config=file:{place}/missing.conf")
    assert place / "missing.conf" in login_files(valid)
    assert login_files(properties("${env:JAAS}")) == {place / "missing.conf"}


def changes(directory: Path, text: str, change: Path, content: bytes) -> list[tuple[str, bool]]:
    old = read(directory, text)
    change.write_bytes(content)
    return [(one.key, one.content) for diff in compare(old, read(directory, text)).changed for one in diff.changes]


def test_new_keys_and_tickets_change_nothing(place: Path) -> None:
    """Clients read them again."""
    text = lines(options(place))
    assert changes(place, text, place / "mm2.keytab", keytab_of(MM2, MM2)) == []
    assert changes(place, text, place / "mm2.cache", cache_of(MM2, tgt_of(MM2), end=2_100_000_000)) == []


def test_a_ticket_of_another_principal(place: Path) -> None:
    other = "other@MM2.TEST"
    text = lines(f'useTicketCache=true ticketCache="{place}/mm2.cache"')
    found = changes(place, text, place / "mm2.cache", cache_of(other, tgt_of(other)))
    assert set(found) == {("A.sasl.jaas.config", True)}


def test_a_new_krb5_conf(place: Path) -> None:
    found = changes(place, lines(options(place)), place / "krb5.conf", b"[libdefaults]\n  default_realm = MM2.TEST\n\n")
    assert set(found) == {("A.sasl.jaas.config", True)}


def test_the_contents_that_lanes_need(place: Path) -> None:
    before = read(place, lines(options(place))).settings.credentials
    assert before.keys() == {f"{place}/mm2.keytab", f"{place}/mm2.cache"}
    (place / "mm2.keytab").write_bytes(keytab_of(MM2, MM2))
    (place / "mm2.cache").write_bytes(cache_of(MM2, tgt_of(MM2), "kafka/a@MM2.TEST"))  # a ticket for a service
    now = read(place, lines(options(place))).settings.credentials
    assert [file for file in now if now[file] != before[file]] == [f"{place}/mm2.keytab"]


def test_a_new_jaas_file(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_OPTS", f"-Djava.security.auth.login.config={place}/jaas.conf")
    section = f"KafkaClient {{ {MODULE} required {options(place)}; }};"
    (place / "jaas.conf").write_text(section)
    assert changes(place, lines(""), place / "mm2.keytab", keytab_of(MM2, MM2)) == []
    (place / "other.keytab").write_bytes((place / "mm2.keytab").read_bytes())
    other = section.replace("mm2.keytab", "other.keytab").encode()
    found = changes(place, lines(""), place / "jaas.conf", other)
    assert set(found) == {("A.security.protocol", True)}
