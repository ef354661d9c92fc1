"""Remote topics that more than one flow of a node writes: possible where a policy keeps names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from mm2.core.names import Flow
from mm2.node.published import FlowStatus

_NAMED = 3  # topics that a sentence names, where there are more


def shared_remote_topics(flows: Iterable[FlowStatus]) -> Mapping[Flow, str]:
    """A sentence for each flow that writes remote topics which another one writes as well.

    That may be wanted, to bring clusters together, so nothing is stopped; what nobody wants by accident is said.
    """
    by_target: defaultdict[str, list[FlowStatus]] = defaultdict(list)
    for flow in flows:
        if flow.topics:
            by_target[flow.flow.target].append(flow)
    found: dict[Flow, str] = {}
    for target, into in by_target.items():
        if len(into) < 2:
            continue
        writers: defaultdict[str, list[Flow]] = defaultdict(list)
        for flow in into:
            for topic in flow.topics:
                writers[topic.remote_topic].append(flow.flow)
        for flow in into:
            shared = sorted(topic.remote_topic for topic in flow.topics if len(writers[topic.remote_topic]) > 1)
            if shared:
                others = {str(other) for name in shared for other in writers[name]} - {str(flow.flow)}
                found[flow.flow] = _sentence(target, shared, sorted(others))
    return found


def _sentence(target: str, topics: list[str], others: list[str]) -> str:
    more = f" and {len(topics) - _NAMED} more" if len(topics) > _NAMED else ""
    named = f"{'topic' if len(topics) == 1 else 'topics'} {', '.join(topics[:_NAMED])}{more}"
    return (
        f"{named} on cluster {target} {'is' if len(topics) == 1 else 'are'} written by {', '.join(others)} too: records"
        " of both are mixed there. If that is not wanted, exclude them from one of the flows (topics.exclude)"
    )
