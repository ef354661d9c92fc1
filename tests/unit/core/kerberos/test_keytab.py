from __future__ import annotations

import pytest

from mm2.config.security.kerberos.login import principals
from mm2.core.wire.formats import FormatError
from tests.unit.core.kerberos.formats import hole, keytab_of


def test_principals_of_a_keytab() -> None:
    content = keytab_of("mm2/host.example.com@EXAMPLE.COM", "mm2@EXAMPLE.COM", "mm2@EXAMPLE.COM")
    assert principals(content) == ("mm2/host.example.com@EXAMPLE.COM", "mm2@EXAMPLE.COM")


def test_deleted_entries_are_skipped() -> None:
    assert principals(keytab_of() + hole(40) + keytab_of("mm2@A").removeprefix(b"\x05\x02")) == ("mm2@A",)


@pytest.mark.parametrize(
    ("content", "rule"),
    [(b"", "is not a keytab"), (b"password", "is not a keytab"), (keytab_of("a@B")[:-9], "is incomplete")],
)
def test_other_contents(content: bytes, rule: str) -> None:
    with pytest.raises(FormatError, match=rule):
        principals(content)
