"""Writes docs/configuration.md from the declarations of the keys: ``python -m mm2.config.docs [FILE]``."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from mm2.config import java_only, keys
from mm2.config.client_keys import ClientKeys, ConsumerKeys, ProducerKeys
from mm2.config.client_notes import MISSED, POINTLESS
from mm2.config.connectors import CheckpointSettings, ConnectorSettings, HeartbeatSettings, SourceSettings
from mm2.config.derive import LEGACY_NAMES
from mm2.config.electing import ElectionSettings
from mm2.config.keys import KeyModel, KeySpec
from mm2.config.node_keys import FileSettings, OwnFlowSettings, OwnSettings, RestSettings
from mm2.config.security_keys import OTHER_MECHANISMS, REFUSED_ALWAYS, REFUSED_SASL, REFUSED_TLS, SecurityKeys
from mm2.config.worker import WorkerSettings

PAGE = Path("docs/configuration.md")

INTRODUCTION = """\
# Configuration

<!-- Written by `python -m mm2.config.docs` from mm2/config; change it there. -->

A node reads one file, `mm2.properties`, in the grammar and with the rules of Apache Kafka's MirrorMaker 2; defaults are
those of Kafka 4.3.1 unless said otherwise. `mm2 check FILE` names every problem at once, with its line.
`mm2 explain FILE` shows every setting in force and the line it comes from. `mm2.properties.example` is a file to start
from.

## Where a key can stand, and which place wins

A and B are two of the aliases in `clusters`; `A->B` is the flow from A to B.

| what | strongest first |
|---|---|
| key of a connector | `A->B.key`, `key`, default |
| key of the worker of A->B | `B.key`, default; keys that begin with `offset.storage`, `config.storage`, `status.storage` or `task`: `key`, `B.key`, default |
| source consumer of A->B | `A->B.source.consumer.key`, `A.consumer.key`, `A->B.consumer.key`; connection and security also `A.key`, `key` |
| record producer of A->B | `A->B.producer.override.key`, `B.producer.key`; connection and security also `B.key`, `key` |
| other clients of A->B | as the source consumer, with `source` or `target`, and `consumer`, `producer` or `admin` |
| key of our own | `A->B.mm2.key` where the table says so, `mm2.key`, default |

Mind: `A.consumer.key` wins over `A->B.consumer.key`, and `A->B.producer.key` does not reach the producer of records.
Both are so in Java; `mm2 check` says it where it matters.

A flow exists when `A->B.enabled` is true, or when it emits heartbeats, which is the default: B->A then writes heartbeats
into A, which A->B carries to B. `--clusters B C` leaves the flows that end in B or C.

## What is refused for more than one line

- Flows that would copy a topic round and round, as A->B and B->A do under `IdentityReplicationPolicy` when both select
  it: the names tell no copy from an original. The whole file is looked at, also flows that other nodes run. A circle
  that cannot be judged, because `topics` is a regular expression of another kind than `orders.*` or a filter of your
  own, is a warning.
- `offset-syncs.…` keys beside `emit.offset-syncs.enabled = false`, as in Java. Without offset syncs, or with
  `emit.checkpoints.enabled = false`, a flow has no checkpoints and syncs no group offsets; Java logs an error then, `mm2
  check` warns where something else in the file asks for them.
- Transformations: see `transforms` below.

## Classes

`replication.policy.class`, `topic.filter.class`, `group.filter.class`, `config.property.filter.class` and
`forwarding.admin.class` take Java's names of the classes that are built in, or `module:Class` for one of yours in Python
([extending.md](extending.md)). Any command that reads the file imports them, so who may write the file may run code as
the node. Modules come from the installed packages and `PYTHONPATH`, never from the file's directory.

## The file

`=`, `:` or a blank parts key and value; a backslash is written twice (`orders\\\\.eu`); a line that ends in a backslash
goes on; the file is ISO-8859-1, other signs are written `\\u00e9`. Lists are parted by commas, so a regular expression
with a comma cannot be written. Regular expressions are Java's and match whole names.

`${name:path:key}` stands for a value that a config provider gives: `${env:NAME}`, `${file:/path:key}`,
`${dir:/path:file}`, after

```
config.providers = env
config.providers.env.class = org.apache.kafka.common.config.provider.EnvVarConfigProvider
```

`EnvVarConfigProvider` takes `config.providers.env.param.allowlist.pattern`; `FileConfigProvider` and
`DirectoryConfigProvider` take `….param.allowed.paths`. A reference that cannot be resolved is an error. Secrets are
printed as `[hidden]`, whatever prints them.

## When the file changes

A running node watches its file, the files that config providers look into, and the PEM files that `ssl.….location`
names, and looks at once on SIGHUP. A file with errors is refused as a whole: the node goes on as before and says what is
wrong. Otherwise the differences are shown, and each reaches as deep as its key says in the tables below.

| reaches | what happens |
|---|---|
| nothing | the key means nothing to a running node, as do comments, order, blanks, and lines that a stronger place wins over |
| running | taken over while records go on being copied; what is given to a topic when it is made goes to the next one made |
| flow | the flow drains and starts again, the others go on. A client's key only where a client is really told something else; a PEM file with other contents counts too |
| node | in force when the node is started again, and shown until then |

A flow that is new starts, one that is gone drains and ends; Spark comes with the first flow that copies, and stays. A flow
that starts again, or ends, offers its tasks to the other nodes first and drains what they do not take, all within
`task.shutdown.graceful.timeout.ms`; it goes on from what is stored. Code of classes of your own is not loaded again, and
what `${env:…}` gave stays as it was: restart the node for that.

Nodes of one flow should read the same out of their files; what the leader's file says counts. Where they do not, that is
shown, for all keys of connectors, groups, storage topics and clients but those marked *own to each node*: the leader
writes what its file says, without secrets, to `mm2-configs.A.internal` under the key `mm2-terms`, and a node that reads
something else out of its own names the keys in `/flows`.

How to go about a change: [operations](operations.md#change-the-file-of-running-nodes).
"""  # noqa: E501 a table's row is one line


def page() -> str:
    """The whole page."""
    return "\n".join((INTRODUCTION, *_sections())) + "\n"


def _sections() -> Iterator[str]:
    yield from _keys("The node", "Keys that stand alone.", FileSettings, RestSettings, ElectionSettings, OwnSettings)
    yield (
        "`spark.…` goes to the Spark session as it is, `spark.master` for example "
        "([spark-clusters.md](spark-clusters.md)); a change reaches the node.\n"
    )
    yield from _keys("Keys of our own that a flow can have", "`A->B.mm2.…`, else `mm2.…`.", OwnFlowSettings)
    yield from _keys("All connectors", "`A->B.…`, else alone.", ConnectorSettings)
    yield from _keys("Topics and records", "`A->B.…`, else alone.", SourceSettings, without=ConnectorSettings)
    yield from _keys("Checkpoints and groups", "`A->B.…`, else alone.", CheckpointSettings, without=ConnectorSettings)
    yield from _keys("Heartbeats", "`A->B.…`, else alone.", HeartbeatSettings, without=ConnectorSettings)
    yield from _keys("Group and storage topics", "`B.…` for all flows into B.", WorkerSettings)
    yield (
        "`offset.storage.…`, `config.storage.…` and `status.storage.…` with any other topic setting behind them are\n"
        "given to the topic when it is created; its cleanup policy is always compact. A change is taken over by the\n"
        "running node, for topics that are created later.\n"
    )
    yield from _keys(
        "Connections and security", "For a cluster (`A.…`), for all (alone), or for one client.", SecurityKeys
    )
    yield _refused()
    yield from _keys("All clients", "`A.consumer.…`, `A.producer.…`, `A.admin.…` and the places above.", ClientKeys)
    yield from _keys("Consumers", "How records are read.", ConsumerKeys, without=ClientKeys)
    yield from _keys("Producers", "How records are written.", ProducerKeys, without=ClientKeys)
    yield from _accepted()


def _keys(title: str, place: str, *models: type[KeyModel], without: type[KeyModel] | None = None) -> Iterator[str]:
    left_out = keys.names(without) if without else frozenset()
    yield f"## {title}\n\n{place}\n\n| key | type | default | meaning | reaches |\n|---|---|---|---|---|"
    for model in models:
        for spec in keys.specs(model):
            if spec.name not in left_out:
                yield _row(spec)
    yield ""


def _row(spec: KeySpec) -> str:
    default = f"`{_cell(spec.default)}`" if spec.default else ""
    later = f" *Not in force yet: {spec.later}.*" if spec.later else ""
    reaches = spec.reach.name.lower() + (", *own to each node*" if spec.local else "")
    return f"| `{spec.name}` | {spec.java_type} | {default} | {_cell(spec.doc)}{later} | {reaches} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _refused() -> str:
    refused = _words((*REFUSED_TLS, *REFUSED_SASL, *REFUSED_ALWAYS))
    return (
        "A security setting that cannot be honoured is an error, so that nothing is weaker than was asked: JKS and\n"
        f"PKCS12 stores, other mechanisms, and {refused}.\n"
        f"Beside PLAIN and SCRAM these mean nothing: {_words(OTHER_MECHANISMS)}.\n"
    )


def _accepted() -> Iterator[str]:
    yield "## Keys of Java's that mean nothing here\n\nThey are accepted, so that the same file runs under both.\n"
    yield from _reasons("Connectors", java_only.CONNECTOR)
    yield from _reasons("Worker", java_only.WORKER)
    for kind, reasons in POINTLESS.items():
        yield from _reasons(f"A Java {kind}", reasons)
    yield "## Keys of Java's clients that cannot be honoured\n"
    yield "`mm2 check` warns of them, unless the value asks for what happens anyway.\n"
    for kind, missed in MISSED.items():
        yield from _reasons(f"A Java {kind}", {name: miss.why for name, miss in missed.items()})
    yield "## Old names\n"
    yield from _reasons("Kafka 2.4 to 3.9", {old: f"write `{new}`" for old, new in LEGACY_NAMES.items()})


def _reasons(title: str, reasons: Mapping[str, str]) -> Iterator[str]:
    yield f"| {title} | why |\n|---|---|"
    yield from (f"| `{name}` | {_cell(why)} |" for name, why in sorted(reasons.items()))
    yield ""


def _words(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    Path(sys.argv[1] if sys.argv[1:] else PAGE).write_text(page(), "utf-8")
