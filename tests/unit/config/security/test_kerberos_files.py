"""Files that logins are read from, which a node watches."""

from __future__ import annotations

from pathlib import Path

import pytest

from mm2.config.grammar.values import Properties
from mm2.config.load import load_file
from mm2.config.reload.comparison import compare
from mm2.config.reload.sources import named_files
from mm2.config.security.kerberos_files import login_files
from tests.unit.config.files import CLUSTERS
from tests.unit.config.readings import read
from tests.unit.config.security.kerberos import MM2, MODULE, lines, place
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


def test_new_keys(place: Path) -> None:
    text = lines(options(place))
    found = changes(place, text, place / "mm2.keytab", keytab_of(MM2, MM2))
    assert set(found) == {("A.sasl.jaas.config", True)}


def test_tickets_for_services_change_nothing(place: Path) -> None:
    new = cache_of(MM2, tgt_of(MM2), "kafka/a@MM2.TEST")
    assert changes(place, lines(options(place)), place / "mm2.cache", new) == []


def test_a_new_jaas_file(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_OPTS", f"-Djava.security.auth.login.config={place}/jaas.conf")
    section = f"KafkaClient {{ {MODULE} required {options(place)}; }};"
    (place / "jaas.conf").write_text(section)
    found = changes(place, lines(""), place / "mm2.keytab", keytab_of(MM2, MM2))
    assert set(found) == {("A.security.protocol", True)}
