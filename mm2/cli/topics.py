"""``mm2 topics``: which source topics become which remote topics, and why the others do not."""

from __future__ import annotations

import json as json_text
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import Group, RenderableType
from rich.text import Text

from mm2.cli.direct import ask, choose_flow, note, read_settings
from mm2.cli.node_address import node_context, node_url
from mm2.cli.node_client import fetch_flows, read_flows
from mm2.cli.parameters import Json, Node
from mm2.cli.screen import show_once
from mm2.cli.tables import counted, state_text, table
from mm2.cli.topic_rows import FlowTopics, TopicRow, ask_flows, merged, of_node
from mm2.cli.trouble import DONE, CommandError, UsageError

Flow = Annotated[str | None, Parameter(name="--flow", show_default=False, help="Only this flow, written A->B.")]
Everything = Annotated[
    bool,
    Parameter(
        name="--all",
        negative=(),
        show_default=False,
        help="Also topics that are not replicated, and why; needs FILE.",
    ),
]


def topics(node: Node, /, *, flow: Flow = None, everything: Everything = False, json: Json = False) -> int:
    """Print the topics of each flow. Raises CommandError when neither the node nor a cluster answers."""
    is_url = "://" in node
    if is_url and everything:
        raise UsageError(
            "--all needs FILE: why a topic is left out stands in its rules, and the clusters have the names"
        )
    found = named(_from_node(node), flow) if is_url else _from_file(node, flow, everything=everything)
    for sentence in dict.fromkeys(sentence for one in found for sentence in one.notes):
        note(f"mm2 topics: {sentence}")
    if not any(one.topics or one.state is not None for one in found):
        raise CommandError("nothing is known of any topic")
    if json:
        sys.stdout.write(json_text.dumps(topics_json(found), ensure_ascii=False, indent=2) + "\n")
    else:
        show_once(lambda: topics_view(found))
    return DONE


def topics_view(flows: Sequence[FlowTopics]) -> RenderableType:
    """A heading and a table for each flow that replicates."""
    parts: list[RenderableType] = []
    for flow in flows:
        replicated = sum(row.remote_topic is not None for row in flow.topics)
        others = len(flow.topics) - replicated
        words = f"  {counted(replicated, 'topic')}" + (f", {others:,} not replicated" if others else "")
        state = state_text(flow.state) if flow.state is not None else Text("node not asked", style="dim")
        parts.append(Text.assemble((flow.flow, "bold"), "  ", state, words))
        if flow.topics:
            parts.append(_table(flow.topics))
        parts.append(Text())
    return Group(*parts[:-1]) if parts else Text("nothing is replicated")


def topics_json(flows: Sequence[FlowTopics]) -> dict[str, object]:
    """The same for programs: what was not asked, or does not exist, is null."""
    return {
        "flows": [
            {
                "flow": flow.flow,
                "state": None if flow.state is None else flow.state.value,
                "topics": [
                    {
                        "topic": row.topic,
                        "remote_topic": row.remote_topic,
                        "partitions": row.partitions,
                        "remote_partitions": row.remote_partitions,
                        "state": None if row.state is None else row.state.value,
                        "reason": row.reason,
                    }
                    for row in flow.topics
                ],
            }
            for flow in flows
        ]
    }


def _table(rows: Sequence[TopicRow]) -> RenderableType:
    shown = table("topic", "remote topic", "#partitions", "#on target", "state", "")
    for row in rows:
        shown.add_row(
            row.topic,
            row.remote_topic or "-",
            f"{row.partitions:,}",
            "-" if row.remote_partitions is None else f"{row.remote_partitions:,}",
            _state(row),
            Text(row.reason or "", style="dim" if row.remote_topic is None else "red"),
        )
    return shown


def _state(row: TopicRow) -> Text:
    if row.remote_topic is None:
        return Text("not replicated", style="dim")
    return Text("-") if row.state is None else state_text(row.state)


def _from_node(place: str) -> list[FlowTopics]:
    """What the node at ``place`` shows. Raises CommandError."""
    url, context = node_url(place), node_context(place)
    return [of_node(flow) for flow in read_flows(fetch_flows(url, context), url) if flow.enabled]


def named(flows: list[FlowTopics], name: str | None) -> list[FlowTopics]:
    """The flow called ``name``, or all of them. Raises UsageError when the node has no such flow."""
    chosen = [flow for flow in flows if name in (None, flow.flow)]
    if not chosen and name is not None:
        there_are = ", ".join(flow.flow for flow in flows) or "no enabled flow"
        raise UsageError(f"there is no enabled flow {name!r}. The node has {there_are}.")
    return chosen


def _from_file(place: str, name: str | None, *, everything: bool) -> list[FlowTopics]:
    """From the node of the file; from the clusters when it does not answer, or all is wanted. Raises CommandError."""
    shown: list[FlowTopics] = []
    try:
        shown = _from_node(place)
    except CommandError as error:
        settings = read_settings(Path(place))  # a file that is wrong is the first thing to tell
        note(f"mm2 topics: {error}")
        note("mm2 topics: the clusters are asked instead: they do not know what is copied right now")
    else:
        if not everything:
            return named(shown, name)
        settings = read_settings(Path(place))
    flows = [choose_flow(settings, name)] if name is not None else [flow for flow in settings.flows if flow.enabled]
    told = ask(ask_flows(flows), "asking the clusters for their topics")
    by_name = {one.flow: one for one in shown}
    return [
        merged(by_name[one.flow], one) if one.flow in by_name else _chosen(one, everything=everything) for one in told
    ]


def _chosen(flow: FlowTopics, *, everything: bool) -> FlowTopics:
    if everything:
        return flow
    return replace(flow, topics=tuple(row for row in flow.topics if row.remote_topic is not None))
