"""PromQL: which series a query asks for, and what the node really exposes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from promql_parser import AggregateExpr, BinaryExpr, Expr, MatchOp, VectorSelector, parse, walk

from mm2.node.published import CoverageStatus, Latency, NodeStatus
from mm2.rest.metrics import NodeCollector
from tests.contract.samples import LOSS, flow, heartbeat_flow, node, task

OF_THE_SCRAPE = {"job", "instance"}
"""Labels that Prometheus adds to every series."""

OF_PROMETHEUS = {"up": OF_THE_SCRAPE}
"""Series that Prometheus makes itself, one a target."""

Exposed = Mapping[str, Mapping[str, set[str]]]
"""Metric, label, the values seen."""


def everything() -> NodeStatus:
    """A node of which every metric has a series."""
    replicating = flow(
        losses=(LOSS,),
        checkpoint_latency={"g1": Latency(count=4, seconds=0.5)},
        skipped={"mm2-offset-syncs.B.internal": 2},
        tasks=(task(), task(kind="checkpoint"), task(kind="heartbeat")),
        coverage={"tasks": CoverageStatus(covered=3), "partitions": CoverageStatus(covered=1)},
    )
    return node(replicating, heartbeat_flow())


def exposed() -> Exposed:
    """What /metrics has to offer."""
    registry = CollectorRegistry()
    registry.register(NodeCollector(everything))
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            labels = found[sample.name]
            for label, value in sample.labels.items():
                labels[label].add(value)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A query: the selectors in it as (metric, ((label, whether it is a pattern, value), …)), and every label that it
    groups or joins by."""

    selectors: tuple[tuple[str, tuple[tuple[str, bool, str], ...]], ...]
    labels: frozenset[str]


def asked(query: str) -> Asked:
    """Take a query apart. Raises ValueError where it is no PromQL."""
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
    """What a query asks for that no node exposes, in sentences."""
    parts = asked(query)
    available = set(OF_THE_SCRAPE)
    for metric, matchers in parts.selectors:
        if metric not in known and metric not in OF_PROMETHEUS:
            yield f"there is no metric {metric}"
            continue
        available |= set(known.get(metric, {}))
        for label, is_pattern, value in matchers:
            if label in OF_THE_SCRAPE:
                continue
            if label not in known[metric]:
                yield f"{metric} has no label {label}"
            elif label in ("state", "kind", "enabled", "path"):  # those whose values are ours, not the user's
                wanted = value.split("|") if is_pattern else [value]
                yield from (f"{metric} is never {label}={one}" for one in wanted if one not in known[metric][label])
    yield from (f"nothing in it has a label {label}" for label in sorted(parts.labels - available))
