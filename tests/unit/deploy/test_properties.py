"""Every shipped properties file passes ``mm2 check`` without a warning."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest

from mm2.cli.file.check import check_file
from tests.unit.config.security.tls.issued import issue
from tests.unit.deploy.shipped import COMPOSE, DEPLOY, KUBERNETES, read_yaml

SECRETS = "/etc/mm2-secrets"
OF_MANAGED_CLUSTERS = DEPLOY / "examples" / "managed"  # they need secrets: test_managed_examples.py
SHIPPED = sorted(
    [
        *(file for file in DEPLOY.rglob("*.properties") if file.parent != OF_MANAGED_CLUSTERS),
        DEPLOY.parent / "mm2.properties.example",
    ]
)


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: str(file.relative_to(DEPLOY.parent)))
def test_a_shipped_file_has_no_problem(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = StringIO()
    assert check_file(deployed(file, tmp_path, monkeypatch), (), output) == 0
    assert output.getvalue().startswith("ok: ")


def deployed(file: Path, directory: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file with the secrets and environment that Kubernetes provides; other files are returned unchanged."""
    if file.parent != KUBERNETES:
        return file
    secret = read_yaml(KUBERNETES / "secret.example.yaml")
    for name, content in secret["stringData"].items():
        certificate, key = issue("ca")
        pem = certificate + (key if "BEGIN PRIVATE KEY" in content else "")
        (directory / name).write_text(pem if "BEGIN CERTIFICATE" in content else content)
    (container,) = read_yaml(KUBERNETES / "statefulset.yaml")["spec"]["template"]["spec"]["containers"]
    (mount,) = [one for one in container["volumeMounts"] if one["name"] == "secrets"]
    assert mount["mountPath"] == SECRETS
    for variable in container["env"]:
        if "value" in variable:
            monkeypatch.setenv(variable["name"], variable["value"])
    copy = directory / file.name
    copy.write_text(file.read_text("utf-8").replace(SECRETS, str(directory)))
    return copy


def test_container_files_limit_their_lanes() -> None:
    """Without mm2.lanes, a node would use all cores of the machine."""
    for file in (COMPOSE / "mm2.properties", KUBERNETES / "mm2.properties"):
        assert "\nmm2.lanes = " in file.read_text("utf-8")
