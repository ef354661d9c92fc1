"""Rules for what a node may show: nothing that was not observed within the last seconds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus

from tests.faults.outages.recording import Observation

DOWN_AFTER = 30.0  # seconds that a problem lasts before /health returns 503
OLD = 10.0  # seconds after which an end offset is unknown
NOISE = 4.0  # seconds that two busy cores add
CAUGHT_UP = re.compile("caught up(?! in about)")  # at the rate of the last seconds; a quota lets bursts pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What must be shown while a fault lasts.

    ``source`` and ``target``: whether the cluster answers. ``state``: of the flow. ``health``: whether /health of all
    nodes returns 200 after half a minute; ``ready``: whether /health/ready does. ``waits``: the topics that are not
    copied, though the source answers: their lag is known, and is at least the number of records that are missing on the
    target. ``counted``: False if the fault would hold back the client that counts them. ``written``: records that
    are written to these topics when the fault begins; ``per_second``: that are written to one of them while it lasts.
    ``says``: regular expressions for ``mm2 status``; ``logs``: for the log, from the fault on. ``alerts``: those that
    fire, by the latest minute; ``possible``: those that may fire besides.
    """

    source: bool = True
    target: bool = True
    state: str = "RUNNING"
    health: bool = True
    ready: bool = True
    waits: tuple[str, ...] = ()
    counted: bool = True
    written: int = 0
    per_second: int = 0
    says: tuple[str, ...] = ()
    logs: tuple[str, ...] = ()
    alerts: Mapping[str, int]
    possible: tuple[str, ...] = ()


def objections(expected: Expected, seen: Sequence[Observation], missing: Mapping[str, int]) -> list[str]:
    """Return what the nodes show although they must not, or do not show. ``seen``: of all nodes that run, at a moment.
    ``missing``: records of each topic that are not on the target, by an independent client, counted before ``seen``."""
    found = [f"{one.node} does not answer" for one in seen if one.flows.code == 0]
    answers = [one for one in seen if one.flows.code]
    found += [
        f"{one.node} after {one.seconds:.0f} s: {text}"
        for one in answers
        for rule in (_clusters, _lags, _ages, _states, _probes, _words)
        for text in rule(expected, one, missing)
    ]
    if answers:
        found += [
            f"after {answers[0].seconds:.0f} s: {text}"
            for rule in (_lag_metrics, _health)
            for text in rule(expected, answers)
        ]
    return found


def _clusters(expected: Expected, seen: Observation, _: Mapping[str, int]) -> Iterator[str]:
    for alias, answers in (("A", expected.source), ("B", expected.target)):
        found = seen.values("mm2_cluster_reachable", cluster=alias)
        if found != [float(answers)]:
            yield f"mm2_cluster_reachable of {alias} is {found}, not {float(answers)}"


def _lags(expected: Expected, seen: Observation, missing: Mapping[str, int]) -> Iterator[str]:
    if not expected.source:
        yield from _unknown(seen)
        return
    for topic in expected.waits:
        if not expected.target:
            continue  # other nodes can have copied: there is an upper bound, by the node that had the partition last
        lags = [one["lag_records"] for one in seen.partitions(topic)]
        if not lags or None in lags:
            yield f"the lag of {topic} is unknown, although the source answers: {lags}"
        elif sum(lags) < missing.get(topic, 0) - expected.per_second * OLD:
            yield f"the lag of {topic} is {sum(lags)}, although {missing[topic]} records are missing"
    if expected.waits and CAUGHT_UP.search(_outlook(seen.lag.stdout)):
        yield f"mm2 lag says caught up:\n{seen.lag.stdout}"


def _lag_metrics(expected: Expected, seen: Sequence[Observation]) -> Iterator[str]:
    """The node that has a partition, or had it last, has its lag, or without the target an upper bound of it."""
    name = "mm2_source_lag_records" if expected.target else "mm2_source_lag_records_at_most"
    for topic in expected.waits if expected.source else ():
        lags = [value for one in seen for value in one.values(name, topic=f"A.{topic}")]
        if not lags or sum(lags) < expected.written:
            yield f"{name} of {topic} is {lags}, although {expected.written} records were written"


def _outlook(text: str) -> str:
    """Return the lines of flows of ``mm2 lag`` without its heading, which has the name of a column."""
    return "\n".join(text.splitlines()[1:])


def _unknown(seen: Observation) -> Iterator[str]:
    """Nothing says what the source has by now."""
    for one in seen.partitions():
        for field in ("end_offset", "lag_records", "lag_seconds"):
            if one[field] is not None:
                yield f"{one['topic']}-{one['partition']} has {field} {one[field]}"
    for name in ("mm2_source_lag_records", "mm2_source_lag_seconds"):
        if values := seen.values(name):
            yield f"{name} has samples: {values}"
    if CAUGHT_UP.search(_outlook(seen.lag.stdout)):
        yield f"mm2 lag says caught up:\n{seen.lag.stdout}"
    if re.search(r"\b0 records\b(?! at )", seen.status.stdout):
        yield f"mm2 status shows 0 records:\n{seen.status.stdout}"
    ages = seen.values("mm2_source_end_offset_age_seconds")
    if any(age < OLD for age in ages):
        yield f"mm2_source_end_offset_age_seconds is {ages}"
    if ages and "last known" not in seen.status.stdout:
        yield f"mm2 status does not show the last known lag:\n{seen.status.stdout}"


def _states(expected: Expected, seen: Observation, _: Mapping[str, int]) -> Iterator[str]:
    state = seen.flow.get("state")
    if state != expected.state:
        yield f"the flow is {state}, not {expected.state}: {seen.flow.get('reasons')}"
    if not (expected.source and expected.target):
        running = [f"{one['topic']}-{one['partition']}" for one in seen.partitions() if one["state"] == "RUNNING"]
        if running:
            yield f"partitions are RUNNING: {running}"


def _probes(expected: Expected, seen: Observation, _: Mapping[str, int]) -> Iterator[str]:
    if (seen.ready.code == HTTPStatus.OK) != expected.ready:
        yield f"/health/ready returns {seen.ready.code}: {seen.ready.body}"
    if seen.health.code == HTTPStatus.SERVICE_UNAVAILABLE and not seen.reasons:
        yield "/health has no reason"
    yield from _empty_reasons((*seen.reasons, *seen.flow.get("reasons", ())))


def _health(expected: Expected, seen: Sequence[Observation]) -> Iterator[str]:
    """A node reports its own share: a problem is one of the node that has it."""
    if seen[0].seconds > DOWN_AFTER + NOISE:
        down = [one for one in seen if one.health.code != HTTPStatus.OK]
        if bool(down) == expected.health:
            yield f"/health returns {[(one.node, one.health.code, one.health.body) for one in seen]}"


def _empty_reasons(reasons: Iterable[str]) -> Iterator[str]:
    for one in reasons:
        if not one.strip() or "no reason given" in one or one.rstrip().endswith(":"):
            yield f"a reason is empty: {one!r}"
        if re.search(r"(\b\S+->\S+): \1:", one):
            yield f"a reason names the flow twice: {one!r}"


def _ages(expected: Expected, seen: Observation, _: Mapping[str, int]) -> Iterator[str]:
    """Records that wait have an age, or an unknown one."""
    for one in seen.partitions():
        if one["lag_records"] and one["lag_seconds"] == 0:
            yield f"{one['topic']}-{one['partition']} has {one['lag_records']} records of 0 s"
    for topic in expected.waits:
        if re.search(rf"^{topic} .* 0\.0$", seen.status.stdout, re.MULTILINE):
            yield f"mm2 status shows an age of 0.0 s:\n{seen.status.stdout}"


def _words(expected: Expected, seen: Observation, _: Mapping[str, int]) -> Iterator[str]:
    for pattern in expected.says:
        if not re.search(pattern, seen.status.stdout):
            yield f"mm2 status does not say {pattern!r}:\n{seen.status.stdout}"
