"""``mm2 heartbeats``: where heartbeats arrived, over which clusters, and where they are missing."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from mm2.cli.clusters.cluster_access import ask, note, read_settings
from mm2.cli.clusters.heartbeat_arrivals import (
    Arrival,
    ClusterHeartbeats,
    SeenHeartbeats,
    ask_clusters,
    clusters_in_flows,
    heartbeats_of_file,
    intervals,
    judge,
    upstream_clusters,
)
from mm2.cli.errors import DONE, CommandError, UsageError
from mm2.cli.terminal.screen import print_json, show_once
from mm2.cli.terminal.tables import duration, table


def heartbeats(file: Path, *, cluster: str | None = None, json: bool = False) -> int:
    """Print the heartbeats of the clusters of the file. Raises CommandError if none of them answers."""
    settings = read_settings(file)
    aliases = clusters_in_flows(settings)
    if cluster is not None:
        if cluster not in aliases:
            raise UsageError(f"no cluster {cluster!r} with flows. Clusters of the file: {', '.join(aliases)}.")
        aliases = [cluster]
    expected = heartbeats_of_file(settings)
    found = ask(ask_clusters(settings, aliases, expected), f"reading heartbeats of {', '.join(aliases)}")
    for one in found:
        if one.failure is not None:
            note(f"mm2 heartbeats: {one.failure}")
    if not any(one.answered for one in found):
        raise CommandError("no cluster is reachable, so heartbeats are unknown")
    seen = {
        one.cluster: judge(one, expected, intervals=intervals(settings), now_ms=time.time() * 1000)
        for one in found
        if one.answered
    }
    if json:
        print_json({"clusters": [cluster_json(one, seen.get(one.cluster, ())) for one in found]})
    else:
        show_once(lambda: heartbeats_view([(one, seen[one.cluster]) for one in found if one.answered]))
    return DONE


def heartbeats_view(clusters: Sequence[tuple[ClusterHeartbeats, Sequence[SeenHeartbeats]]]) -> RenderableType:
    """Return for each cluster a heading with its upstream clusters, and a row per heartbeat that arrives, or should."""
    parts: list[RenderableType] = []
    for found, seen in clusters:
        parts.append(Text.assemble((found.cluster, "bold"), "  ", _upstream_words(found)))
        parts.append(_table(seen) if seen else Text("  no heartbeats"))
        parts.append(Text())
    return Group(*parts[:-1])


def cluster_json(found: ClusterHeartbeats, seen: Sequence[SeenHeartbeats]) -> dict[str, object]:
    """Return the same for programs."""
    return {
        "cluster": found.cluster,
        "answered": found.answered,
        "error": found.failure,
        "upstream": [
            {"cluster": alias, "hops": len(way), "path": [*reversed(way), found.cluster]}
            for alias, way in upstream_clusters(found.topics.values()).items()
        ],
        "heartbeats": [
            {
                "topic": one.place.topic,
                "source": one.place.flow.source,
                "target": one.place.flow.target,
                "path": [*reversed(one.passed), found.cluster],
                "hops": len(one.passed),
                "timestamp_ms": one.timestamp_ms,
                "age_seconds": one.age_seconds,
                "state": one.arrival.value,
            }
            for one in seen
        ],
    }


_STYLES = {
    Arrival.ON_TIME: "green",
    Arrival.LATE: "bold red",
    Arrival.MISSING: "bold red",
    Arrival.NOT_KNOWN: "yellow",
    Arrival.NOT_IN_FILE: "dim",
}


def _table(seen: Iterable[SeenHeartbeats]) -> RenderableType:
    shown = table("topic", "written by", "path", "#hops", "#last", "state")
    for one in seen:
        shown.add_row(
            one.place.topic,
            str(one.place.flow),
            "->".join([*reversed(one.passed), one.place.cluster]),
            str(len(one.passed)),
            "-" if one.age_seconds is None else f"{duration(one.age_seconds)} ago",
            Text(one.arrival.value, style=_STYLES[one.arrival]),
        )
    return shown


def _upstream_words(found: ClusterHeartbeats) -> str:
    ways = upstream_clusters(found.topics.values())
    if not ways:
        return "no upstream clusters (according to its heartbeats topics)"
    return "upstream: " + ", ".join(
        f"{alias} (1 hop)" if len(way) == 1 else f"{alias} ({len(way)} hops, via {', '.join(reversed(way[:-1]))})"
        for alias, way in ways.items()
    )
