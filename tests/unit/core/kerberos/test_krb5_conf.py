from __future__ import annotations

import pytest

from mm2.core.kerberos.krb5_conf import libdefault

TEXT = """\
# default_realm = NO
[logging]
  default_realm = NO
[libdefaults]
  ; default_realm = NO
  default_realm = MM2.TEST
  quoted = "a b"
  default_realm = SECOND
[realms]
  MM2.TEST = {
    default_domain = x
  }
"""


@pytest.mark.parametrize(
    ("name", "value"), [("default_realm", "MM2.TEST"), ("quoted", "a b"), ("default_domain", None)]
)
def test_values_of_libdefaults(name: str, value: str | None) -> None:
    assert libdefault(TEXT, name) == value
