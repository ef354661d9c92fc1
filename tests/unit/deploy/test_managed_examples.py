"""The files for managed clusters have no problem, as docs/how-to/security.md says."""

from __future__ import annotations

from pathlib import Path

import pytest
import trustme

from mm2.config.load import load

EXAMPLES = Path(__file__).parents[3] / "deploy/examples/managed"


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.properties")), ids=lambda path: path.stem)
def test_an_example_is_accepted(example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CLOUD_KEY", "CLOUD_SECRET", "MSK_PASSWORD"):
        monkeypatch.setenv(name, "sesame")
    authority = trustme.CA()
    issued = authority.issue_cert("user.example.com")
    for cluster in ("west", "east"):
        for directory in (f"{cluster}-ca", f"{cluster}-user"):
            (tmp_path / directory).mkdir()
        authority.cert_pem.write_to_path(str(tmp_path / f"{cluster}-ca/ca.crt"))
        issued.private_key_pem.write_to_path(str(tmp_path / f"{cluster}-user/user.key"))
        issued.cert_chain_pems[0].write_to_path(str(tmp_path / f"{cluster}-user/user.crt"))
    file = tmp_path / example.name
    file.write_text(example.read_text().replace("/mnt/", f"{tmp_path}/"))
    loaded = load(file)
    assert loaded.problems == ()
    assert loaded.settings is not None
    assert sum(flow.enabled for flow in loaded.settings.flows) == 1


def test_there_are_examples() -> None:
    assert len(list(EXAMPLES.glob("*.properties"))) == 3
