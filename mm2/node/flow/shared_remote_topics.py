"""Detection of remote topics that several flows of a node write, as is possible if a policy keeps topic names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from mm2.node.status.status_model import FlowStatus

_NAMED = 3  # maximum number of topics in a message


def shared_remote_topics(flows: Iterable[FlowStatus]) -> Mapping[str, str]:
    """Return a warning for each flow that writes remote topics which another flow writes, too.

    This can be intended, to merge clusters, so it is only a warning.
    """
    by_target: defaultdict[str, list[FlowStatus]] = defaultdict(list)
    for flow in flows:
        if flow.topics:
            by_target[flow.target].append(flow)
    found: dict[str, str] = {}
    for target, into in by_target.items():
        if len(into) < 2:
            continue
        writers: defaultdict[str, list[str]] = defaultdict(list)
        for flow in into:
            for topic in flow.topics:
                writers[topic.remote_topic].append(flow.flow)
        for flow in into:
            shared = sorted(topic.remote_topic for topic in flow.topics if len(writers[topic.remote_topic]) > 1)
            if shared:
                others = {other for name in shared for other in writers[name]} - {flow.flow}
                found[flow.flow] = _warning(target, shared, sorted(others))
    return found


def _warning(target: str, topics: list[str], others: list[str]) -> str:
    more = f" and {len(topics) - _NAMED} more" if len(topics) > _NAMED else ""
    named = f"{'topic' if len(topics) == 1 else 'topics'} {', '.join(topics[:_NAMED])}{more}"
    return (
        f"{named} on cluster {target} {'is' if len(topics) == 1 else 'are'} also written by {', '.join(others)}, so"
        " records of different flows are mixed; if this is not intended, exclude"
        f" {'it' if len(topics) == 1 else 'them'} from one of the flows (topics.exclude)"
    )
