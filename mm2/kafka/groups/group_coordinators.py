"""Batched requests to the coordinators of many groups, with retries."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TypeVar

from mm2.kafka.backoff import Backoff
from mm2.kafka.chunks import chunks
from mm2.kafka.client.cluster import Cluster, CoordinatorKind
from mm2.kafka.errors import BrokerError, ClusterError
from mm2.kafka.groups.group_errors import describe_error
from mm2.kafka.protocol.group_requests import FIND_COORDINATOR, MANY_COORDINATORS, FindCoordinatorsRequest

T = TypeVar("T")

Ask = Callable[[int, Sequence[str]], Awaitable[Mapping[str, T | ClusterError]]]

_KEYS_A_REQUEST = 1_000  # a response of 60 KB
_FIND = "find the coordinator of group"


async def ask_coordinators(
    cluster: Cluster, groups: Collection[str], ask: Ask[T], *, groups_a_request: int, timeout_ms: int
) -> dict[str, T | ClusterError]:
    """Return the result of each group, or the error that persisted for ``timeout_ms``.

    ``ask`` sends one request to a broker about at most ``groups_a_request`` groups that it coordinates; it may raise
    ClusterError for all of them. Retriable errors are retried with backoff after a new coordinator lookup. Brokers are
    asked in parallel, with one request per broker at a time.
    """
    deadline = time.monotonic() + timeout_ms / 1000
    backoff = Backoff.for_retries(cluster.settings)
    found: dict[str, T | ClusterError] = {}
    missing = list(dict.fromkeys(groups))
    while missing:
        found |= await _round(cluster, missing, ask, groups_a_request)
        missing = [group for group in missing if isinstance(error := found[group], ClusterError) and error.retriable]
        for group in missing:
            cluster.group_coordinators.pop(group, None)
        pause = backoff.next()
        if time.monotonic() + pause > deadline:
            break
        if missing:
            await asyncio.sleep(pause)
    for error in found.values():
        if isinstance(error, BrokerError):
            error.on(cluster.settings.alias)
    return found


async def _round(
    cluster: Cluster, groups: Sequence[str], ask: Ask[T], groups_a_request: int
) -> dict[str, T | ClusterError]:
    found: dict[str, T | ClusterError] = {}
    led: defaultdict[int, list[str]] = defaultdict(list)
    for group, coordinator in (await _coordinators(cluster, groups)).items():
        if isinstance(coordinator, ClusterError):
            found[group] = coordinator
        else:
            led[coordinator].append(group)
    for answers in await asyncio.gather(
        *(_ask_one(node_id, own, ask, groups_a_request) for node_id, own in led.items())
    ):
        found |= answers
    return found


async def _ask_one(
    node_id: int, groups: Sequence[str], ask: Ask[T], groups_a_request: int
) -> dict[str, T | ClusterError]:
    found: dict[str, T | ClusterError] = {}
    for chunk in chunks(groups, groups_a_request):
        try:
            found |= await ask(node_id, chunk)
        except ClusterError as error:  # the remaining requests would fail in the same way
            return found | dict.fromkeys((group for group in groups if group not in found), error)
    return found


async def _coordinators(cluster: Cluster, groups: Sequence[str]) -> dict[str, int | ClusterError]:
    """Return each group's coordinator, from the cache or by a request to any broker."""
    remembered = cluster.group_coordinators
    found: dict[str, int | ClusterError] = {group: remembered[group] for group in groups if group in remembered}
    unknown = [group for group in groups if group not in found]
    for chunk in chunks(unknown, _KEYS_A_REQUEST):
        try:
            found |= await _find(cluster, chunk)
        except ClusterError as error:  # the remaining requests would fail in the same way
            return found | dict.fromkeys((group for group in unknown if group not in found), error)
    remembered.update((group, node_id) for group, node_id in found.items() if isinstance(node_id, int))
    return found


async def _find(cluster: Cluster, groups: Sequence[str]) -> dict[str, int | ClusterError]:
    node_id = await cluster.any_node()
    if (await cluster.versions(node_id)).get(FIND_COORDINATOR, (0, 0))[1] < MANY_COORDINATORS:
        return await _find_one_by_one(cluster, groups)
    found: dict[str, int | ClusterError] = {}
    for group, coordinator, error, words in await cluster.send(node_id, FindCoordinatorsRequest(groups)):
        found[group] = describe_error(error, _FIND, group, words) if error else coordinator
    return found


async def _find_one_by_one(cluster: Cluster, groups: Sequence[str]) -> dict[str, int | ClusterError]:
    found: dict[str, int | ClusterError] = {}
    for group in groups:
        try:
            found[group] = await cluster.coordinator(CoordinatorKind.GROUP, group)
        except BrokerError as error:
            found[group] = describe_error(error.code, _FIND, group, error.words)
    return found
