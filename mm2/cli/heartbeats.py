"""``mm2 heartbeats``: which heartbeats arrived where, over which clusters, and which should have."""

from __future__ import annotations

import json as json_text
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Annotated

from cyclopts import Parameter
from rich.console import Group, RenderableType
from rich.text import Text

from mm2.cli.arrivals import (
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
from mm2.cli.direct import ask, note, read_settings
from mm2.cli.parameters import File, Json
from mm2.cli.screen import show_once
from mm2.cli.tables import duration, table
from mm2.cli.trouble import DONE, CommandError, UsageError


def heartbeats(
    file: File,
    /,
    *,
    cluster: Annotated[str | None, Parameter(show_default=False, help="Only those that arrive at this one.")] = None,
    json: Json = False,
) -> int:
    """Ask the clusters of the file. Raises CommandError when none of them answers."""
    settings = read_settings(file)
    aliases = clusters_in_flows(settings)
    if cluster is not None:
        if cluster not in aliases:
            raise UsageError(f"there is no cluster {cluster!r} with flows. The file has {', '.join(aliases)}.")
        aliases = [cluster]
    expected = heartbeats_of_file(settings)
    found = ask(ask_clusters(settings, aliases, expected), f"asking {', '.join(aliases)} for heartbeats")
    for one in found:
        if one.trouble is not None:
            note(f"mm2 heartbeats: {one.trouble}")
    if not any(one.answered for one in found):
        raise CommandError("no cluster answers, so nothing is known of heartbeats")
    seen = {
        one.cluster: judge(one, expected, intervals=intervals(settings), now_ms=time.time() * 1000)
        for one in found
        if one.answered
    }
    if json:
        answer = {"clusters": [cluster_json(one, seen.get(one.cluster, ())) for one in found]}
        sys.stdout.write(json_text.dumps(answer, ensure_ascii=False, indent=2) + "\n")
    else:
        show_once(lambda: heartbeats_view([(one, seen[one.cluster]) for one in found if one.answered]))
    return DONE


def heartbeats_view(clusters: Sequence[tuple[ClusterHeartbeats, Sequence[SeenHeartbeats]]]) -> RenderableType:
    """A heading for each cluster with what lies upstream, and a row for all heartbeats that arrive there, or should."""
    parts: list[RenderableType] = []
    for found, seen in clusters:
        parts.append(Text.assemble((found.cluster, "bold"), "  ", _upstream_words(found)))
        parts.append(_table(seen) if seen else Text("  no heartbeats"))
        parts.append(Text())
    return Group(*parts[:-1])


def cluster_json(found: ClusterHeartbeats, seen: Sequence[SeenHeartbeats]) -> dict[str, object]:
    """The same for programs."""
    return {
        "cluster": found.cluster,
        "answered": found.answered,
        "error": found.trouble,
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
    shown = table("topic", "written by", "came over", "#hops", "#last", "state")
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
        return "nothing is upstream, by its heartbeats topics"
    return "upstream: " + ", ".join(
        f"{alias} (1 hop)" if len(way) == 1 else f"{alias} ({len(way)} hops, over {', '.join(reversed(way[:-1]))})"
        for alias, way in ways.items()
    )
