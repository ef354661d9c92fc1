"""Every file of properties that ships passes ``mm2 check``, without a warning."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest

from mm2.cli.check import check_file
from tests.unit.deploy.shipped import COMPOSE, DEPLOY, KUBERNETES, read_yaml

SECRETS = "/etc/mm2-secrets"
SHIPPED = sorted([*DEPLOY.rglob("*.properties"), DEPLOY.parent / "mm2.properties.example"])


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: str(file.relative_to(DEPLOY.parent)))
def test_a_shipped_file_has_no_problem(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = StringIO()
    assert check_file(as_in_its_place(file, tmp_path, monkeypatch), (), told) == 0
    assert told.getvalue().startswith("ok: ")


def as_in_its_place(file: Path, directory: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file with the secrets and the environment that Kubernetes gives it; others as they are."""
    if file.parent != KUBERNETES:
        return file
    secret = read_yaml(KUBERNETES / "secret.example.yaml")
    for name, content in secret["stringData"].items():
        (directory / name).write_text(content)
    (container,) = read_yaml(KUBERNETES / "statefulset.yaml")["spec"]["template"]["spec"]["containers"]
    (mount,) = [one for one in container["volumeMounts"] if one["name"] == "secrets"]
    assert mount["mountPath"] == SECRETS
    for variable in container["env"]:
        if "value" in variable:
            monkeypatch.setenv(variable["name"], variable["value"])
    copy = directory / file.name
    copy.write_text(file.read_text("utf-8").replace(SECRETS, str(directory)))
    return copy


def test_the_files_of_containers_bound_their_lanes() -> None:
    """Without the line a node takes the machine's cores for its own."""
    for file in (COMPOSE / "mm2.properties", KUBERNETES / "mm2.properties"):
        assert "\nmm2.lanes = " in file.read_text("utf-8")
