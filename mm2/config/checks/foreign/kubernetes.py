"""Recognition of Kubernetes manifests: Strimzi resources, ConfigMaps and others, in YAML or JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mm2.config.checks.foreign import strimzi
from mm2.config.checks.foreign.foreign_file import INSTEAD, START_FROM_EXAMPLE, ForeignFile, Settings
from mm2.config.checks.foreign.tree import NotUnderstood, Tree, UnreadableYaml

_STRIMZI = "kafka.strimzi.io/"
_CONVERTERS: Mapping[str, Callable[[str, Tree], ForeignFile]] = {
    "KafkaMirrorMaker2": strimzi.mirror_maker_2,
    "KafkaMirrorMaker": strimzi.mirror_maker_1,
    "KafkaConnector": strimzi.connector,
}
_API_VERSION = re.compile(r"^apiVersion:\s*[\"']?([\w./-]+)", re.MULTILINE)
_KIND = re.compile(r"^kind:\s*[\"']?(\w+)", re.MULTILINE)
_DOCUMENT_START = re.compile(r"^---.*$", re.MULTILINE)
_CLUSTERS = re.compile(r"^\s*clusters\s*[=:]", re.MULTILINE)
_SHELL_SAFE = re.compile(r"[\w.-]+")


@dataclass(frozen=True, slots=True)
class _Manifest:
    """``text``: after as many line ends as lines precede it in the file, so that errors have the line of the file."""

    api: str
    kind: str
    text: str

    def tree(self) -> Tree:
        """Return the content. Raises NotUnderstood."""
        if self.text.lstrip().startswith("{"):
            return Tree.of(json.loads(self.text))
        from mm2.config.checks.foreign.yaml_reader import read_yaml  # noqa: PLC0415 PyYAML is for such files only

        return Tree.of(read_yaml(self.text))


def manifest(text: str, _properties: Settings) -> ForeignFile | None:
    """Recognise a file of one or several manifests."""
    found = _from_json(text) if text.lstrip().startswith("{") else _from_yaml(text)
    if not found:
        return None
    resources = [one for one in found if one.api.startswith(_STRIMZI) and one.kind in _CONVERTERS]
    if resources:
        return _strimzi(resources)
    config_map = next((one for one in found if one.kind == "ConfigMap"), None)
    if config_map is not None:
        return _config_map(config_map)
    return ForeignFile(f"is a Kubernetes manifest (kind: {found[0].kind}){INSTEAD}", (START_FROM_EXAMPLE,))


def _from_json(text: str) -> list[_Manifest]:
    try:
        found = json.loads(text)
    except ValueError:
        return []
    api, kind = found.get("apiVersion"), found.get("kind")
    return [_Manifest(api, kind, text)] if isinstance(api, str) and isinstance(kind, str) else []


def _from_yaml(text: str) -> list[_Manifest]:
    found, lines = [], 0
    for document in _DOCUMENT_START.split(text):
        if (api := _API_VERSION.search(document)) and (kind := _KIND.search(document)):
            found.append(_Manifest(api[1], kind[1], "\n" * lines + document))
        lines += document.count("\n")
    return found


def _strimzi(resources: list[_Manifest]) -> ForeignFile:
    kind = resources[0].kind
    rule = f"is a Strimzi {kind} resource{INSTEAD}"
    if len(resources) > 1:
        return strimzi.by_hand(f"contains {len(resources)} Strimzi resources{INSTEAD}", kind)
    try:
        return _CONVERTERS[kind](rule, resources[0].tree())
    except UnreadableYaml as error:
        return strimzi.by_hand(rule, kind, str(error))
    except NotUnderstood:
        return strimzi.by_hand(rule, kind)


def _config_map(found: _Manifest) -> ForeignFile:
    name, key = "NAME", "mm2.properties"
    try:
        tree = found.tree()
        name = _safe(tree.child("metadata").text("name")) or name
        data = tree.child("data")
        key = next((one for one in data.names if _safe(one) and _CLUSTERS.search(data.text(one) or "")), key)
    except NotUnderstood:
        pass
    path = key.replace(".", r"\.")
    return ForeignFile(
        f"is a Kubernetes ConfigMap{INSTEAD}",
        (
            f"extract the file {key} from it, or get it from Kubernetes:",
            f"  kubectl get configmap {name} -o jsonpath='{{.data.{path}}}' > mm2.properties",
        ),
    )


def _safe(text: str | None) -> str | None:
    """Return ``text`` if it can be part of a shell command."""
    return text if text and _SHELL_SAFE.fullmatch(text) else None
