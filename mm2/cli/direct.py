"""Asking clusters themselves, for when there is no node to ask: with short deadlines, and a word when it takes long."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from mm2.cli.trouble import UsageError
from mm2.config.load import load
from mm2.config.settings import FlowSettings, NodeSettings
from mm2.core.client_settings import ClientSettings
from mm2.core.replication_filter import ReplicationFilter
from mm2.kafka.cluster import Cluster
from mm2.kafka.errors import ClusterError, RequestTimedOut

T = TypeVar("T")

ANSWER_MS = 5_000
"""A broker on another continent answers in a second. Who asks at a failover should not wait for a dead one."""

REACHED_WITHIN_S = 10.0
"""Until one of the bootstrap servers has answered: time for two that are dead."""

SILENT_FOR_S = 1.0
"""After so long people wonder whether anything happens."""


def read_settings(file: Path) -> NodeSettings:
    """The settings of ``file``. Raises UsageError with the first thing that is wrong with it."""
    if file.parts[:1] in (("http:",), ("https:",)):
        raise UsageError("the clusters are asked, not a node: give the FILE that names them in place of the URL")
    loaded = load(file)
    if loaded.settings is not None:
        return loaded.settings
    first, *others = [problem for problem in loaded.problems if not problem.is_warning]
    more = f" (and {len(others)} more: mm2 check {file} tells them all)" if others else ""
    raise UsageError(f"{first}{more}")


def choose_flow(settings: NodeSettings, name: str | None) -> FlowSettings:
    """The flow called ``name``, also one that is switched off by now, or the only enabled one. Raises UsageError."""
    enabled = [flow for flow in settings.flows if flow.enabled]
    there_are = f"Enabled are {', '.join(str(flow.flow) for flow in enabled) or 'none'}."
    if name is None:
        if len(enabled) == 1:
            return enabled[0]
        raise UsageError(f"which flow? Name it with --flow 'A->B'. {there_are}")
    for flow in settings.flows:
        if str(flow.flow) == name.replace(" ", ""):
            return flow
    raise UsageError(f"the file has no flow {name!r}. {there_are}")


def rules_of(flow: FlowSettings) -> ReplicationFilter:
    """Which topics the flow replicates."""
    return ReplicationFilter(
        flow=flow.flow,
        policy=flow.policy,
        selects=flow.topic_filter,
        replicate_heartbeats=flow.source.heartbeats_replication_enabled,
    )


def impatient(settings: ClientSettings) -> Cluster:
    """A client that gives up soon. ``settings`` are those of the node's client for the same purpose."""
    return Cluster(replace(settings, request_timeout_ms=min(settings.request_timeout_ms, ANSWER_MS)))


async def reach(cluster: Cluster) -> ClusterError | None:
    """What keeps the cluster from being asked; None when it answers."""
    try:
        async with asyncio.timeout(REACHED_WITHIN_S):
            await cluster.metadata(())
    except TimeoutError:
        return RequestTimedOut(
            f"cluster {cluster.settings.alias} did not answer within {REACHED_WITHIN_S:.0f} s"
            f" ({cluster.settings.alias}.bootstrap.servers)"
        )
    except ClusterError as error:
        return error
    return None


def reason(alias: str, error: ClusterError) -> str:
    """What ``error`` says, for a sentence that names the cluster already."""
    return str(error).removeprefix(f"cluster {alias}: ")


def ask(answer: Coroutine[Any, Any, T], what: str) -> T:
    """Run ``answer``; people who wait for it are told ``what`` goes on."""

    async def asking() -> T:
        async with _progress(what):
            return await answer

    return asyncio.run(asking())


@asynccontextmanager
async def _progress(what: str) -> AsyncIterator[None]:
    """A line on a terminal that goes away again."""
    if not sys.stderr.isatty():
        yield
        return
    began = time.monotonic()
    told = False

    async def tell() -> None:
        nonlocal told
        while True:
            await asyncio.sleep(SILENT_FOR_S)
            told = True
            sys.stderr.write(f"\r{what}, {time.monotonic() - began:.0f} s\x1b[K")
            sys.stderr.flush()

    telling = asyncio.create_task(tell(), name="progress")
    try:
        yield
    finally:
        telling.cancel()
        await asyncio.wait([telling])
        if told:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def note(sentence: str) -> None:
    """Something to know beside the answer, which is on stdout."""
    print(sentence, file=sys.stderr)  # noqa: T201 a command's remark
