"""``mm2 topics``: source topics with their remote topics, and why other topics are not replicated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from mm2.cli.clusters.cluster_access import ask, choose_flow, note, read_settings
from mm2.cli.clusters.deleted_topics import deleted_topics
from mm2.cli.errors import DONE, CommandError, UsageError
from mm2.cli.node.node_address import node_context, node_url
from mm2.cli.node.node_client import fetch_flows, read_flows
from mm2.cli.node.topic_rows import FlowTopics, TopicRow, ask_flows, merged, of_node
from mm2.cli.terminal.screen import print_json, show_once
from mm2.cli.terminal.tables import counted, state_text, table


def topics(
    node: str, *, flow: str | None = None, everything: bool = False, deleted: bool = False, json: bool = False
) -> int:
    """Print the topics of each flow. Raises CommandError if neither the node nor a cluster responds."""
    is_url = "://" in node
    if deleted:
        if everything or is_url:
            raise UsageError(
                "--deleted needs FILE and is without --all, because it reads what is gone from the clusters"
            )
        return deleted_topics(read_settings(Path(node)), flow=flow, json=json)
    if is_url and everything:
        raise UsageError(
            "--all needs FILE, because topics that are not replicated are read from the clusters: use FILE"
        )
    found = named(_from_node(node), flow) if is_url else _from_file(node, flow, everything=everything)
    for text in dict.fromkeys(text for one in found for text in one.notes):
        note(f"mm2 topics: {text}")
    if not any(one.topics or one.state is not None for one in found):
        raise CommandError("neither the node nor a source cluster responds, so the topics are unknown")
    if json:
        print_json(topics_json(found))
    else:
        show_once(lambda: topics_view(found))
    return DONE


def topics_view(flows: Sequence[FlowTopics]) -> RenderableType:
    """Return a heading and a table for each enabled flow."""
    parts: list[RenderableType] = []
    for flow in flows:
        replicated = sum(row.remote_topic is not None for row in flow.topics)
        others = len(flow.topics) - replicated
        words = f"  {counted(replicated, 'topic')}" + (f", {others:,} not replicated" if others else "")
        state = state_text(flow.state) if flow.state is not None else Text("state unknown", style="dim")
        parts.append(Text.assemble((flow.flow, "bold"), "  ", state, words))
        if flow.topics:
            parts.append(_table(flow.topics))
        parts.append(Text())
    return Group(*parts[:-1]) if parts else Text("no enabled flows")


def topics_json(flows: Sequence[FlowTopics]) -> dict[str, object]:
    """Return the same for programs: what is unknown or does not exist is null. Topics without a query have none."""
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
                        **({"query": row.query} if row.query is not None else {}),
                    }
                    for row in flow.topics
                ],
            }
            for flow in flows
        ]
    }


def _table(rows: Sequence[TopicRow]) -> RenderableType:
    queries = any(row.query is not None for row in rows)
    shown = table("topic", "remote topic", *(["query"] if queries else []), "#partitions", "#on target", "state", "")
    for row in rows:
        shown.add_row(
            row.topic,
            row.remote_topic or "-",
            *([row.query or "-"] if queries else []),
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


def _from_node(node: str) -> list[FlowTopics]:
    """Return the topics as reported by ``node``. Raises CommandError."""
    url, context = node_url(node), node_context(node)
    return [of_node(flow) for flow in read_flows(fetch_flows(url, context), url) if flow.enabled]


def named(flows: list[FlowTopics], name: str | None) -> list[FlowTopics]:
    """Return the flow ``name``, or all flows. Raises UsageError if the node has no such flow."""
    chosen = [flow for flow in flows if name in (None, flow.flow)]
    if not chosen and name is not None:
        there_are = ", ".join(flow.flow for flow in flows) or "none"
        raise UsageError(f"no enabled flow {name!r}. Enabled flows of the node: {there_are}.")
    return chosen


def _from_file(node: str, name: str | None, *, everything: bool) -> list[FlowTopics]:
    """Return the topics from the node of the file, or if it does not respond or with ``everything``, from the clusters.

    Raises CommandError.
    """
    shown: list[FlowTopics] = []
    try:
        shown = _from_node(node)
    except CommandError as error:
        settings = read_settings(Path(node))  # an invalid file is reported first
        note(f"mm2 topics: {error}")
        note("mm2 topics: reading the topics from the clusters instead; the state of the flow is unknown")
    else:
        if not everything:
            return named(shown, name)
        settings = read_settings(Path(node))
    flows = [choose_flow(settings, name)] if name is not None else [flow for flow in settings.flows if flow.enabled]
    told = ask(ask_flows(flows), "reading the topics of the clusters")
    by_name = {one.flow: one for one in shown}
    return [
        merged(by_name[one.flow], one) if one.flow in by_name else _chosen(one, everything=everything) for one in told
    ]


def _chosen(flow: FlowTopics, *, everything: bool) -> FlowTopics:
    if everything:
        return flow
    return replace(flow, topics=tuple(row for row in flow.topics if row.remote_topic is not None))
