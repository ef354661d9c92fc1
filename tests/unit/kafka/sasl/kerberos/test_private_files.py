from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mm2.kafka.sasl.kerberos import process_krb5_conf
from mm2.kafka.sasl.kerberos.process_krb5_conf import PrivateFile


@pytest.mark.parametrize("in_memory", [True, False])
def test_a_private_file(monkeypatch: pytest.MonkeyPatch, in_memory: bool) -> None:
    if not in_memory:
        monkeypatch.delattr(os, "memfd_create", raising=False)
    with PrivateFile(b"keys") as file:
        path = Path(file.path)
        assert path.read_bytes() == b"keys"
        assert in_memory or path.stat().st_mode & 0o777 == 0o600
    assert not path.exists()


def test_krb5_conf_of_the_process() -> None:
    """Python's own view of the environment, from which the configuration is read, stays as it was."""
    before = os.environ.get("KRB5_CONFIG")
    try:
        first = process_krb5_conf.use("[realms]\n")
        assert process_krb5_conf.use(None) != first
        assert process_krb5_conf.use("[realms]\n") == first
        assert Path(first).read_text().endswith("rdns = false\n[realms]\n")
        seen = subprocess.run(
            [sys.executable, "-c", "import os; print(os.environ['KRB5_CONFIG'])"], check=True, capture_output=True
        )
        assert seen.stdout.decode().strip() == first
        assert os.environ.get("KRB5_CONFIG") == before
    finally:
        os.unsetenv("KRB5_CONFIG")
