"""PromQL queries, and the series that a node really exposes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from promql_parser import AggregateExpr, BinaryExpr, Expr, MatchOp, VectorSelector, parse, walk

from mm2.core.access.failed_logins import LoginFailure
from mm2.core.expiry import CertificateKind
from mm2.node.status.status_model import AssignmentAuditStatus, ClusterStatus, Latency, NodeStatus
from mm2.rest.public.metrics_collector import FailedLoginCollector, NodeCollector
from tests.contract.samples import (
    CERTIFICATE,
    LOSS,
    LOSS_COUNTS,
    LOST,
    UNACCEPTED,
    flow,
    heartbeat_flow,
    member,
    node,
    partition,
    task,
    topic,
)

SCRAPE_LABELS = {"job", "instance"}
"""Labels that Prometheus adds to every series."""

PROMETHEUS_SERIES = {"up": SCRAPE_LABELS}
"""Series that Prometheus itself creates, one per target."""

Exposed = Mapping[str, Mapping[str, set[str]]]
"""Values by metric and label."""


def everything() -> NodeStatus:
    """Return a node status with which every metric has a series."""
    replicating = flow(
        topic(
            "orders",
            partition(lag_seconds=90.0, retention_margin_records=7, retention_margin_seconds=60.0),
            query="mask",
        ),
        members=(member(),),
        losses=(LOSS,),
        lost=LOST,
        loss_counts=LOSS_COUNTS,
        unaccepted_losses=UNACCEPTED,
        left_selection=("payments",),
        config_differs=True,
        checkpoint_latency={"g1": Latency(count=4, seconds=0.5)},
        skipped={"mm2-offset-syncs.B.internal": 2},
        max_bytes_per_second=2_000_000,
        fetch_shares=1_000_000,
        paused=("users",),
        paused_since={"users": 1_763_740_800_000},
        tasks=(task(), task(kind="checkpoint"), task(kind="heartbeat")),
        assignment_audit={"tasks": AssignmentAuditStatus(assigned=3), "partitions": AssignmentAuditStatus(assigned=1)},
    )
    answers = ClusterStatus(alias="A", reachable=True, since=1, answered=1, error=None)
    certificates = tuple(
        replace(CERTIFICATE, kind=str(kind), cluster="A" if kind is not CertificateKind.LISTENER else "")
        for kind in CertificateKind
    )
    credentials = {"certificates": certificates, "renewals": {"A": None, "B": "no answer"}}
    return node(replicating, heartbeat_flow(), clusters=(answers,), **credentials)


def exposed() -> Exposed:
    """Return the values of all labels of all metrics of /metrics."""
    registry = CollectorRegistry()
    registry.register(NodeCollector(everything))
    registry.register(FailedLoginCollector(lambda: dict.fromkeys(LoginFailure, 1)))
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            labels = found[sample.name]
            for label, value in sample.labels.items():
                labels[label].add(value)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A parsed query.

    ``selectors``: (metric, ((label, whether it is a pattern, value), …)); ``labels``: every label by which it groups or
    joins.
    """

    selectors: tuple[tuple[str, tuple[tuple[str, bool, str], ...]], ...]
    labels: frozenset[str]


def asked(query: str) -> Asked:
    """Parse a query. Raise ValueError if it is not valid PromQL."""
    selectors: list[tuple[str, tuple[tuple[str, bool, str], ...]]] = []
    labels: set[str] = set()

    def visit(expression: Expr) -> None:
        match expression:
            case VectorSelector(name=str(name)):
                matchers = expression.matchers.matchers
                patterns = (MatchOp.Re, MatchOp.NotRe)
                selectors.append((name, tuple((one.name, one.op in patterns, one.value) for one in matchers)))
            case AggregateExpr() if expression.modifier is not None:
                labels.update(expression.modifier.labels)
            case BinaryExpr() if expression.modifier is not None and expression.modifier.matching is not None:
                labels.update(expression.modifier.matching.labels)

    walk(parse(query), visit)
    return Asked(selectors=tuple(selectors), labels=frozenset(labels))


def objections(query: str, known: Exposed) -> Iterator[str]:
    """Return a message for everything in a query that no node exposes."""
    parts = asked(query)
    available = set(SCRAPE_LABELS)
    for metric, matchers in parts.selectors:
        if metric not in known and metric not in PROMETHEUS_SERIES:
            yield f"there is no metric {metric}"
            continue
        available |= set(known.get(metric, {}))
        for label, is_pattern, value in matchers:
            if label in SCRAPE_LABELS:
                continue
            if label not in known[metric]:
                yield f"{metric} has no label {label}"
            elif label in ("state", "kind", "enabled", "path"):  # labels whose values we define, not the user
                wanted = value.split("|") if is_pattern else [value]
                yield from (f"{metric} is never {label}={one}" for one in wanted if one not in known[metric][label])
    yield from (f"nothing in it has a label {label}" for label in sorted(parts.labels - available))
