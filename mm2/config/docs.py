"""Writes the tables in docs/reference from their declarations: ``python -m mm2.config.docs [DIRECTORY]``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

from mm2.config.clients.client_keys import ClientKeys, ConsumerKeys, ProducerKeys
from mm2.config.clients.ignored_client_keys import MISSED, POINTLESS
from mm2.config.clients.java_derivation import LEGACY_NAMES
from mm2.config.flow_features import features_of
from mm2.config.keys import declaration, ignored_java_keys
from mm2.config.keys.class_keys import LOGIN_HANDLER
from mm2.config.keys.connector_keys import CheckpointSettings, ConnectorSettings, HeartbeatSettings, SourceSettings
from mm2.config.keys.declaration import KeyModel, KeySpec
from mm2.config.keys.election_keys import election_models
from mm2.config.keys.java_effects import EFFECTS
from mm2.config.keys.node_keys import FileSettings, OwnFlowSettings, OwnSettings, RestSettings
from mm2.config.keys.sql_keys import SqlKeys
from mm2.config.keys.worker_keys import WorkerSettings
from mm2.config.load import load
from mm2.config.security.kerberos.keys import KerberosKeys
from mm2.config.security.oauth.keys import OAuthKeys
from mm2.config.security.security_keys import (
    OTHER_MECHANISMS,
    RANDOM,
    REFUSED_ALWAYS,
    REFUSED_SASL,
    REFUSED_TLS,
    SecurityKeys,
)
from mm2.core.access.required_acls import RequiredAcl, required_acls
from mm2.core.access.rights import resource_words
from mm2.core.lanes.partition_steps import MEANINGS, STATES_OF_STEPS, FetchStep, NodeStep, SendStep
from mm2.core.topics.acls import PatternType, ResourceType

DIRECTORY = Path("docs/reference")

MARK = "<!-- The rest of this page is generated from mm2/config by `make docs`. -->\n"
"""Separates the introduction, which is written by hand, from the tables."""

_PER_FLOW = "Set as `A->B.key` for one flow, or as `key` for all flows."


def page(name: str, current: str) -> str:
    """Return page ``name`` with new tables; the introduction of ``current``, its present text, is kept."""
    introduction, mark, _ = current.partition(MARK)
    return introduction + mark + "\n".join(("", *PAGES[name]())) + "\n"


def _configuration() -> Iterator[str]:
    yield from _keys("The node", "Set without a prefix.", FileSettings, RestSettings, *election_models(), OwnSettings)
    yield (
        "Keys that begin with `spark.`, such as `spark.master`, are passed to the Spark session unchanged "
        "([Lanes on a Spark cluster](../how-to/spark-clusters.md)). A change takes effect when the node restarts.\n"
    )
    yield from _keys("Keys of mm2 for flows", "Set as `A->B.mm2.…` for one flow, or as `mm2.…`.", OwnFlowSettings)
    yield from _keys(
        "SQL flows",
        "Set as `A->B.mm2.sql.NAME.…` for one flow, or as `mm2.sql.NAME.…`. `NAME` has letters, digits, hyphens and\n"
        "underscores. Each name has `topics`, and one of `query`, `file` and `transform`; one of a flow replaces that "
        "of all flows.",
        SqlKeys,
    )
    yield from _keys("All connectors", _PER_FLOW, ConnectorSettings)
    yield from _keys("Topics and records", _PER_FLOW, SourceSettings, without=ConnectorSettings)
    yield from _keys("Checkpoints and groups", _PER_FLOW, CheckpointSettings, without=ConnectorSettings)
    yield from _keys("Heartbeats", _PER_FLOW, HeartbeatSettings, without=ConnectorSettings)
    yield from _keys("Group and storage topics", "Set as `B.key` for all flows whose target is B.", WorkerSettings)
    yield (
        "Any other topic configuration after `offset.storage.`, `config.storage.` or `status.storage.` is used when\n"
        "that topic is created. The cleanup policy is always `compact`. Changes apply to topics created later.\n"
    )
    yield from _keys(
        "Connections and security", "Set as `A.key` for one cluster, as `key` for all, or for one client.", SecurityKeys
    )
    yield from _keys("GSSAPI", "Used with `sasl.mechanism = GSSAPI` (Kerberos); set like the keys above.", KerberosKeys)
    yield from _keys("OAUTHBEARER", "Used with `sasl.mechanism = OAUTHBEARER`; set like the keys above.", OAuthKeys)
    yield (
        "A security setting that is not supported is rejected with an error, so that no connection is less secure\n"
        "than the file requires. [Ignored and old keys](ignored-keys.md#rejected-security-keys) lists them.\n"
    )
    yield from _keys(
        "All clients", "Set as `A.consumer.key`, `A.producer.key` or `A.admin.key`, or as shown above.", ClientKeys
    )
    yield from _keys("Consumers", "How records are read.", ConsumerKeys, without=ClientKeys)
    yield from _keys("Producers", "How records are written.", ProducerKeys, without=ClientKeys)


def _ignored() -> Iterator[str]:
    yield (
        "## Keys without effect\n\nThey are accepted without a warning, so that one file works with both programs. "
        "`mm2 check` and a starting node warn\nonly about those that change what Java copies: a converter other than "
        "`ByteArrayConverter`, without a prefix, for a flow or for\nits target, and `connector.class`. "
        "A flow that would continue remote topics which Java wrote with such a\nconverter stops "
        "([Migrating](../how-to/migrating.md#notes)). The last column says what of the copy differs from Java's\n"
        "because of the key.\n"
    )
    yield from _reasons("Connectors", ignored_java_keys.CONNECTOR)
    yield from _reasons("Worker", ignored_java_keys.WORKER)
    for kind, reasons in POINTLESS.items():
        yield from _reasons(f"Java {kind}", reasons)
    yield f"Keys of brokers: {_names(OTHER_MECHANISMS)}.\n"
    yield f"Java's random numbers: `{RANDOM}`.\n"
    yield "## Unsupported client keys\n"
    yield "`mm2 check` warns about them, unless the value matches the actual behavior.\n"
    for kind, missed in MISSED.items():
        yield from _reasons(f"Java {kind}", {name: miss.why for name, miss in missed.items()})
    yield "## Rejected security keys\n"
    yield "They are errors, unless the value is one of Java's own that changes nothing.\n"
    rejected = {*REFUSED_TLS, *REFUSED_SASL, *REFUSED_ALWAYS} - {LOGIN_HANDLER.name}  # read with OAUTHBEARER
    yield from (f"- `{name}`" for name in sorted(rejected))
    yield "\n## Old names\n\nKafka 2.4 to 3.9 accepted these names; they still work here.\n"
    yield "| old name | new name |\n|---|---|"
    yield from (f"| `{old}` | `{new}` |" for old, new in LEGACY_NAMES.items())


def _acls() -> Iterator[str]:
    """Yield the tables of all roles, for a flow A->B with every feature."""
    yield "## ACLs by role\n\nFor flow `A->B`; names are those of this file, and of the other keys' defaults:\n"
    yield f"```properties\n{_EVERY_FEATURE}```\n"
    with TemporaryDirectory() as directory:
        file = Path(directory) / "mm2.properties"
        file.write_text(_EVERY_FEATURE, "utf-8")
        settings = load(file).settings
    assert settings is not None
    (features,) = (one for one in features_of(settings.flows) if one.replicates)
    for role, some in groupby(required_acls(features), key=lambda acl: acl.role):
        yield f"### {role[0].upper()}{role[1:]}\n\n| cluster | resource | operation | why |\n|---|---|---|---|"
        yield from map(_acl_row, some)
        yield ""


_EVERY_FEATURE = """\
clusters = A, B
A.bootstrap.servers = kafka-a:9092
B.bootstrap.servers = kafka-b:9092
A->B.enabled = true
A->B.topics = orders, payments-.*
A->B.groups = billing-.*
A->B.sync.group.offsets.enabled = true
A->B.errors.tolerance = all
listeners = http://127.0.0.1:8083
mm2.rest.admin = true
mm2.rest.admin.token = replace-this-token
"""


def _steps() -> Iterator[str]:
    """Yield the tables of the steps of a partition, in the order in which they are shown."""
    for title, steps in (
        ("At the source", FetchStep),
        ("At the target", SendStep),
        ("Without a lane", NodeStep),
    ):
        yield f"## {title}\n\n| step | state | what it means |\n|---|---|---|"
        for step in steps:
            yield f"| `{step}` | {', '.join(STATES_OF_STEPS[step])} | {_cell(MEANINGS[step])} |"
        yield ""


def _acl_row(acl: RequiredAcl) -> str:
    if acl.resource_type is ResourceType.CLUSTER:
        resource = "cluster"
    else:
        prefixed = "prefix " if acl.pattern.pattern_type is PatternType.PREFIXED else ""
        resource = f"{resource_words(acl.resource_type)} {prefixed}`{acl.pattern.name}`"
    return f"| {acl.cluster} | {resource} | {acl.operation.name} | {acl.why} |"


PAGES: Mapping[str, Callable[[], Iterator[str]]] = {
    "acls.md": _acls,
    "configuration.md": _configuration,
    "ignored-keys.md": _ignored,
    "steps.md": _steps,
}
"""Generated pages by file name."""


def _keys(title: str, place: str, *models: type[KeyModel], without: type[KeyModel] | None = None) -> Iterator[str]:
    left_out = declaration.names(without) if without else frozenset()
    yield f"## {title}\n\n{place}\n\n| key | type | default | meaning | update mode |\n|---|---|---|---|---|"
    for model in models:
        for spec in declaration.specs(model):
            if spec.name not in left_out:
                yield _row(spec)
    yield ""


def _row(spec: KeySpec) -> str:
    default = f"`{_cell(spec.default)}`" if spec.default else ""
    update_mode = spec.update_mode.name.lower() + (", *per node*" if spec.local else "")
    return f"| `{spec.name}` | {spec.java_type} | {default} | {_cell(spec.doc)} | {update_mode} |"


def _reasons(title: str, reasons: Mapping[str, str]) -> Iterator[str]:
    yield f"| {title} | why | Java | differs |\n|---|---|---|---|"
    for name, why in sorted(reasons.items()):
        effect = EFFECTS[name]
        yield f"| `{name}` | {_cell(why)} | {_cell(effect.does)} | {', '.join(effect.differs) or 'nothing'} |"
    yield ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    directory = Path(sys.argv[1] if sys.argv[1:] else DIRECTORY)
    for name in PAGES:
        path = directory / name
        path.write_text(page(name, path.read_text("utf-8")), "utf-8")
