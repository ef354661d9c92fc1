"""``mm2 acls``: the commands that create the ACLs which the flows of a file need, without connecting to anything."""

from __future__ import annotations

import json as json_module
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TextIO

from mm2.cli.errors import DONE, USAGE, CommandError, UsageError
from mm2.config.flow_features import features_of
from mm2.config.grammar.problem_report import write_rejection
from mm2.config.load import load
from mm2.config.settings import FlowSettings
from mm2.core.access.acl_patterns import AclPattern
from mm2.core.access.required_acls import OTHER_PROGRAMS, RequiredAcl, required_acls
from mm2.core.naming.names import Flow
from mm2.core.plugins import PluginError
from mm2.core.topics.acls import PatternType, ResourceType

PRINCIPAL = "User:mm2"
"""The principal if none is given."""

CLIENT_PRINCIPAL = "User:CLIENT"
"""The principal in the commands for `OTHER_PROGRAMS`, which are commented out: they have their own one."""

_OPTIONS = {
    ResourceType.TOPIC: "--topic",
    ResourceType.GROUP: "--group",
    ResourceType.TRANSACTIONAL_ID: "--transactional-id",
}
"""The options of kafka-acls.sh that name a resource; the cluster has ``--cluster`` without a name."""

FlowAcls = Sequence[tuple[FlowSettings, Sequence[RequiredAcl]]]


def acls(
    file: Path,
    *,
    principal: Sequence[str] = (),
    flow: str | None = None,
    clusters: Sequence[str] = (),
    json: bool = False,
) -> int:
    """Print the commands and return the exit code."""
    return acls_of_file(file, principal, flow, clusters, sys.stdout, as_json=json)


def acls_of_file(
    path: Path,
    principals: Sequence[str],
    flow: str | None,
    clusters: Sequence[str],
    out: TextIO,
    *,
    as_json: bool = False,
) -> int:
    """Write the commands for ``flow``, or for all flows of the file, to ``out``.

    ``principals``: one for all clusters, such as User:mm2, or ``A=User:mm2`` for one cluster. Raises UsageError, and
    CommandError if a custom replication policy fails.
    """
    loaded = load(path, clusters)
    if loaded.settings is None:
        write_rejection(path, loaded.problems, out)
        return USAGE
    settings = loaded.settings
    names = [str(one.flow) for one in settings.flows]
    if flow not in (None, *names):
        raise UsageError(f"{path} has no flow {flow}. Use one of its flows: {', '.join(names)}.")
    of_cluster = _principals(
        principals, {alias for one in settings.flows for alias in (one.flow.source, one.flow.target)}
    )
    try:
        required = [
            (one, required_acls(features))
            for one, features in zip(settings.flows, features_of(settings.flows), strict=True)
            if flow in (None, str(one.flow))
        ]
    except PluginError as error:
        raise CommandError(f"{path}: {error}") from error
    if as_json:
        rows = [_row(one.flow, acl, of_cluster) for one, found in required for acl in found]
        print(json_module.dumps(rows, indent=2), file=out)
    else:
        print("\n".join(_commands(required, of_cluster)), file=out)
    return DONE


def _principals(given: Sequence[str], aliases: Iterable[str]) -> dict[str, str]:
    """Return the principal of each cluster. Raises UsageError."""
    aliases = sorted(aliases)
    found = dict.fromkeys(aliases, PRINCIPAL)
    own: dict[str, str] = {}
    for text in given:
        alias, separator, principal = text.partition("=")
        if not separator or ":" in alias:  # a distinguished name contains equal signs: User:CN=mm2,O=example
            found = dict.fromkeys(aliases, _principal(text))
        elif alias in found:
            own[alias] = _principal(principal)
        else:
            raise UsageError(f"--principal {text}: no flow has a cluster {alias}. Clusters: {', '.join(aliases)}.")
    return found | own


def _principal(text: str) -> str:
    kind, _, name = text.partition(":")
    if not kind or not name:
        raise UsageError(f"--principal {text}: a principal has a type and a name. Write User:NAME.")
    return text


def _row(flow: Flow, acl: RequiredAcl, principals: Mapping[str, str]) -> dict[str, str | None]:
    """Return an ACL as ``--json`` prints it."""
    return {
        "flow": str(flow),
        "cluster": acl.cluster,
        "role": acl.role.value,
        "principal": None if acl.role in OTHER_PROGRAMS else principals[acl.cluster],
        "resourceType": acl.resource_type.name,
        "patternType": acl.pattern.pattern_type.name,
        "name": acl.pattern.name,
        "operation": acl.operation.name,
        "why": acl.why,
    }


def _commands(required: FlowAcls, principals: Mapping[str, str]) -> Iterator[str]:
    for settings, found in required:
        flow, clients = settings.flow, settings.clients
        yield f"# flow {flow}"
        for cluster in dict.fromkeys((flow.source, flow.target)):
            admin = clients.source_admin if cluster == flow.source else clients.target_admin
            start = ["kafka-acls.sh", "--bootstrap-server", ",".join(admin.bootstrap_servers), "--add"]
            for role, some in groupby((acl for acl in found if acl.cluster == cluster), key=lambda acl: acl.role):
                is_client = role in OTHER_PROGRAMS
                yield ""
                yield f"# cluster {cluster}: {role}" + (
                    ", for the principals of programs that use it" if is_client else ""
                )
                principal = CLIENT_PRINCIPAL if is_client else principals[cluster]
                for line in _of_role(list(some), [*start, "--allow-principal", principal]):
                    yield f"# {line}" if is_client and not line.startswith("#") else line
        yield ""


def _of_role(acls: Sequence[RequiredAcl], start: Sequence[str]) -> Iterator[str]:
    """Yield one command for all resources with the same operations, after a comment for each reason."""
    by_resource: dict[tuple[ResourceType, AclPattern], list[RequiredAcl]] = {}
    for acl in acls:
        by_resource.setdefault((acl.resource_type, acl.pattern), []).append(acl)
    alike: dict[object, list[list[RequiredAcl]]] = {}
    for (kind, pattern), same in by_resource.items():
        reasons = tuple((acl.operation, acl.why) for acl in same)
        alike.setdefault((kind, pattern.pattern_type, reasons), []).append(same)
    for resources in alike.values():
        for why, operations in groupby(resources[0], key=lambda acl: acl.why):
            yield f"# {', '.join(acl.operation.name for acl in operations)}: {why}"
        yield shlex.join([*start, *_words(resources)])


def _words(resources: Sequence[Sequence[RequiredAcl]]) -> Iterator[str]:
    """Yield the options for resources of one type, with the same operations and type of pattern."""
    first = resources[0][0]
    for acl in resources[0]:
        yield from ("--operation", acl.operation.name)
    if first.resource_type is ResourceType.CLUSTER:
        yield "--cluster"
        return
    for same in resources:
        yield from (_OPTIONS[first.resource_type], same[0].pattern.name)
    if first.pattern.pattern_type is PatternType.PREFIXED:
        yield from ("--resource-pattern-type", "prefixed")
