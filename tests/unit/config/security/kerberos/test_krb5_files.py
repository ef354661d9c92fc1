"""krb5.conf and the files that it includes."""

from __future__ import annotations

from pathlib import Path

import pytest

from mm2.config.security.kerberos.krb5_files import Krb5ConfError, all_files, krb5_conf_files, read_krb5_conf


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRB5_CONFIG", str(tmp_path / "krb5.conf"))
    monkeypatch.delenv("KAFKA_OPTS", raising=False)


def test_includes(tmp_path: Path) -> None:
    more = tmp_path / "krb5.conf.d"
    more.mkdir()
    for name in ("b.conf", "a-1", ".hidden.conf", "c.conf.rpmsave"):
        (more / name).write_text(f"[from]\n  file = {name}\n")
    (tmp_path / "one").write_text("[one]\n")
    (tmp_path / "krb5.conf").write_text(
        f"module /usr/lib/x.so:x\nincludedir {more}/\n[libdefaults]\ninclude {tmp_path}/one\n  default_realm = A\n"
    )
    assert [line for line in (read_krb5_conf() or "").splitlines() if line] == [
        "[from]",
        "  file = a-1",
        "[from]",
        "  file = b.conf",
        "[libdefaults]",
        "[one]",
        "[libdefaults]",
        "  default_realm = A",
    ]
    assert all_files() == {tmp_path / "krb5.conf", tmp_path / "one", more / "a-1", more / "b.conf"}


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("include {}/missing", "requires {}/missing, which cannot be read (No such file or directory)"),
        ("includedir {}/missing", "requires {}/missing, which cannot be read (No such file or directory)"),
        ("include {}/krb5.conf", "requires {}/krb5.conf, which includes itself"),
        ("\xff", "requires {}/krb5.conf, which cannot be read (it is not text)"),
    ],
)
def test_unreadable_files(tmp_path: Path, text: str, rule: str) -> None:
    (tmp_path / "krb5.conf").write_text(text.format(tmp_path), "latin-1")
    with pytest.raises(Krb5ConfError) as error:
        read_krb5_conf()
    assert str(error.value) == rule.format(tmp_path)
    assert all_files() == {tmp_path / "krb5.conf"}


def test_where_krb5_conf_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRB5_CONFIG", "/a:/b")
    assert krb5_conf_files() == (Path("/a"), Path("/b"))
    monkeypatch.setenv("KAFKA_OPTS", "-Dx=y -Djava.security.krb5.conf=/c")
    assert krb5_conf_files() == (Path("/c"),)
    monkeypatch.delenv("KRB5_CONFIG")
    monkeypatch.delenv("KAFKA_OPTS")
    system = tmp_path / "system"
    assert krb5_conf_files(system_file=system) == ()
    assert read_krb5_conf(system_file=system) is None
    system.touch()
    assert krb5_conf_files(system_file=system) == (system,)
