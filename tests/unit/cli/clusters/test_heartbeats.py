from __future__ import annotations

import json

import pytest

from mm2.cli.clusters.heartbeat_arrivals import Arrival, ClusterHeartbeats, SeenHeartbeats, judge, upstream_clusters
from mm2.cli.clusters.heartbeats import cluster_json, heartbeats_view
from mm2.core.naming.heartbeat_paths import HeartbeatPlace
from mm2.core.naming.names import Flow
from tests.unit.cli.views import lines

NOW = 1_700_000_000_000
A_B, C_A = Flow("A", "B"), Flow("C", "A")
TOPICS = {"heartbeats": (), "A.heartbeats": ("A",), "A.D.heartbeats": ("A", "D")}


def place(topic: str, flow: Flow, cluster: str = "B") -> HeartbeatPlace:
    return HeartbeatPlace(cluster=cluster, topic=topic, flow=flow)


def found(last: dict[HeartbeatPlace, int]) -> ClusterHeartbeats:
    return ClusterHeartbeats(
        cluster="B",
        answered=True,
        topics=TOPICS,
        expected_topics={"C.heartbeats": ("C",)},
        unread=frozenset({"A.D.heartbeats"}),
        last=last,
    )


def evaluated(last: dict[HeartbeatPlace, int], *expected: HeartbeatPlace) -> list[SeenHeartbeats]:
    return judge(found(last), expected, intervals={A_B: 1, C_A: 10}, now_ms=NOW)


@pytest.mark.parametrize(
    ("flow", "age_ms", "arrival"),
    [
        (A_B, 0, Arrival.ON_TIME),
        (A_B, 3_000, Arrival.ON_TIME),
        (A_B, 3_001, Arrival.LATE),
        (C_A, 30_000, Arrival.ON_TIME),  # the interval is 10 s
        (C_A, 30_001, Arrival.LATE),
        (A_B, -500, Arrival.ON_TIME),  # the node's clock is ahead of ours
    ],
)
def test_heartbeats_are_late_after_three_intervals(flow: Flow, age_ms: int, arrival: Arrival) -> None:
    here = place("heartbeats", flow)
    (seen,) = evaluated({here: NOW - age_ms}, here)
    assert (seen.arrival, seen.age_seconds, seen.timestamp_ms) == (arrival, max(0, age_ms / 1000), NOW - age_ms)


def test_missing_and_unexpected_heartbeats() -> None:
    here, elsewhere = place("heartbeats", A_B), place("heartbeats", C_A, cluster="A")
    unexpected = place("A.heartbeats", Flow("X", "A"))
    seen = evaluated({unexpected: NOW}, here, elsewhere)
    assert [(one.place, one.arrival, one.passed) for one in seen] == [
        (here, Arrival.MISSING, ()),
        (unexpected, Arrival.NOT_IN_FILE, ("A",)),
    ]


def test_missing_and_unreadable_topics() -> None:
    missing, unread = place("C.heartbeats", C_A), place("A.D.heartbeats", C_A)
    seen = evaluated({}, missing, unread)
    assert [(one.place, one.arrival, one.passed) for one in seen] == [
        (unread, Arrival.NOT_KNOWN, ("A", "D")),
        (missing, Arrival.MISSING, ("C",)),
    ]


def test_upstream_clusters_by_the_shortest_path() -> None:
    ways = [(), ("A",), ("B", "A"), ("B", "A", "D"), ("C", "D")]
    assert upstream_clusters(ways) == {"A": ("A",), "B": ("B",), "C": ("C",), "D": ("C", "D")}


def test_view() -> None:
    on_time, late, missing = place("heartbeats", A_B), place("A.heartbeats", C_A), place("A.D.heartbeats", C_A)
    seen = evaluated({on_time: NOW - 400, late: NOW - 7_500_000}, on_time, late, missing)
    bare = ClusterHeartbeats(cluster="E", answered=True)
    assert lines(heartbeats_view([(found({}), seen), (bare, [])])) == [
        "B  upstream: A (1 hop), D (2 hops, via A)",
        "topic           written by  path     hops       last  state",
        "heartbeats      A->B        B           0  0.4 s ago  on time",
        "A.heartbeats    C->A        A->B        1    2 h ago  late",
        "A.D.heartbeats  C->A        D->A->B     2          -  unknown",
        "",
        "E  no upstream clusters (according to its heartbeats topics)",
        "  no heartbeats",
    ]


def test_json() -> None:
    late = place("A.D.heartbeats", C_A)
    shown = json.loads(json.dumps(cluster_json(found({}), evaluated({late: NOW - 60_000}, late))))
    assert shown == {
        "cluster": "B",
        "answered": True,
        "error": None,
        "upstream": [
            {"cluster": "A", "hops": 1, "path": ["A", "B"]},
            {"cluster": "D", "hops": 2, "path": ["D", "A", "B"]},
        ],
        "heartbeats": [
            {
                "topic": "A.D.heartbeats",
                "source": "C",
                "target": "A",
                "path": ["D", "A", "B"],
                "hops": 2,
                "timestamp_ms": NOW - 60_000,
                "age_seconds": 60.0,
                "state": "late",
            }
        ],
    }
