from __future__ import annotations

import json

import pytest

from mm2.cli.arrivals import Arrival, ClusterHeartbeats, SeenHeartbeats, judge, upstream_clusters
from mm2.cli.heartbeats import cluster_json, heartbeats_view
from mm2.core.heartbeat_paths import HeartbeatPlace
from mm2.core.names import Flow
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


def judged(last: dict[HeartbeatPlace, int], *expected: HeartbeatPlace) -> list[SeenHeartbeats]:
    return judge(found(last), expected, intervals={A_B: 1, C_A: 10}, now_ms=NOW)


@pytest.mark.parametrize(
    ("flow", "age_ms", "arrival"),
    [
        (A_B, 0, Arrival.ON_TIME),
        (A_B, 3_000, Arrival.ON_TIME),
        (A_B, 3_001, Arrival.LATE),
        (C_A, 30_000, Arrival.ON_TIME),  # its interval is ten seconds
        (C_A, 30_001, Arrival.LATE),
        (A_B, -500, Arrival.ON_TIME),  # the node's clock goes ahead of ours
    ],
)
def test_late_is_more_than_three_intervals(flow: Flow, age_ms: int, arrival: Arrival) -> None:
    here = place("heartbeats", flow)
    (seen,) = judged({here: NOW - age_ms}, here)
    assert (seen.arrival, seen.age_seconds, seen.timestamp_ms) == (arrival, max(0, age_ms / 1000), NOW - age_ms)


def test_what_should_be_there_is_missing_and_what_is_not_ours_is_named() -> None:
    here, elsewhere = place("heartbeats", A_B), place("heartbeats", C_A, cluster="A")
    strange = place("A.heartbeats", Flow("X", "A"))
    seen = judged({strange: NOW}, here, elsewhere)
    assert [(one.place, one.arrival, one.passed) for one in seen] == [
        (here, Arrival.MISSING, ()),
        (strange, Arrival.NOT_IN_FILE, ("A",)),
    ]


def test_a_topic_that_is_not_there_and_one_that_cannot_be_read() -> None:
    missing, unread = place("C.heartbeats", C_A), place("A.D.heartbeats", C_A)
    seen = judged({}, missing, unread)
    assert [(one.place, one.arrival, one.passed) for one in seen] == [
        (unread, Arrival.NOT_KNOWN, ("A", "D")),
        (missing, Arrival.MISSING, ("C",)),
    ]


def test_upstream_clusters_by_the_shortest_way() -> None:
    ways = [(), ("A",), ("B", "A"), ("B", "A", "D"), ("C", "D")]
    assert upstream_clusters(ways) == {"A": ("A",), "B": ("B",), "C": ("C",), "D": ("C", "D")}


def test_view() -> None:
    on_time, late, missing = place("heartbeats", A_B), place("A.heartbeats", C_A), place("A.D.heartbeats", C_A)
    seen = judged({on_time: NOW - 400, late: NOW - 7_500_000}, on_time, late, missing)
    bare = ClusterHeartbeats(cluster="E", answered=True)
    assert lines(heartbeats_view([(found({}), seen), (bare, [])])) == [
        "B  upstream: A (1 hop), D (2 hops, over A)",
        "topic           written by  came over  hops       last  state",
        "heartbeats      A->B        B             0  0.4 s ago  on time",
        "A.heartbeats    C->A        A->B          1    2 h ago  late",
        "A.D.heartbeats  C->A        D->A->B       2          -  not known",
        "",
        "E  nothing is upstream, by its heartbeats topics",
        "  no heartbeats",
    ]


def test_json() -> None:
    late = place("A.D.heartbeats", C_A)
    shown = json.loads(json.dumps(cluster_json(found({}), judged({late: NOW - 60_000}, late))))
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
