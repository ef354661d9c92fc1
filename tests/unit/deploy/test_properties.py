"""Every shipped properties file passes ``mm2 check`` without a warning, and uses https between nodes."""

from __future__ import annotations

import re
from io import StringIO
from pathlib import Path

import javaproperties
import pytest

from mm2.cli.file.check import check_file
from tests.lab.shipped import compose_file, make_node_certificate
from tests.unit.config.security.tls.issued import issue
from tests.unit.deploy.shipped import COMPOSE, DEPLOY, KUBERNETES, read_yaml

SECRETS = "/etc/mm2-secrets"
OF_MANAGED_CLUSTERS = DEPLOY / "examples" / "managed"  # they need secrets: test_managed_examples.py
SEVERAL_NODES = {  # share a flow
    COMPOSE / "mm2.properties",
    KUBERNETES / "mm2.properties",
    DEPLOY / "examples" / "three-sites.properties",
}
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
    """Return the file with what it needs beside it: certificates, or the secrets and environment of Kubernetes."""
    copy = directory / file.name
    if file.parent == COMPOSE:
        copy.write_text(compose_file(directory))
        return copy
    if file.name == "three-sites.properties":
        make_node_certificate(directory)
        copy.write_text(file.read_text("utf-8").replace("/etc/mm2/", f"{directory}/"))
        return copy
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
    copy.write_text(file.read_text("utf-8").replace(SECRETS, str(directory)))
    return copy


def test_container_files_limit_their_lanes() -> None:
    """Without mm2.lanes, a node would use all cores of the machine."""
    for file in (COMPOSE / "mm2.properties", KUBERNETES / "mm2.properties"):
        assert "\nmm2.lanes = " in file.read_text("utf-8")


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: str(file.relative_to(DEPLOY.parent)))
def test_nodes_that_share_a_flow_use_https(file: Path) -> None:
    """The others have one node for each flow, which nobody calls from another machine."""
    listeners = javaproperties.loads(file.read_text("utf-8"))["listeners"]
    assert listeners == ("https://0.0.0.0:8083" if file in SEVERAL_NODES else "http://127.0.0.1:8083")


PAGES = sorted((DEPLOY.parent / "docs").rglob("*.md"))


@pytest.mark.parametrize("page", [DEPLOY.parent / "README.md", *PAGES], ids=lambda page: str(page.name))
def test_the_documentation_shows_http_on_loopback_only(page: Path) -> None:
    shown = re.findall(r"listeners ?= ?(http:[^\s`]+)", page.read_text("utf-8"))
    assert set(shown) <= {"http://127.0.0.1:8083"}
