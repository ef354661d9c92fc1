"""Bodies of responses that the command line reads, too, without a server: those of commands, of losses and
of a node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field, TypeAdapter

from mm2.core.lanes.losses import Loss
from mm2.node.status.status_model import CertificateEnd, ClusterStatus, EngineStatus, FileStatus, LaneBuffer, LaneMemory


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResponse:
    """A command that was accepted. GET /flows shows its effect."""

    flow: Annotated[str, Field(description="source->target")]
    command: Annotated[str, Field(description="such as pause or skip")]
    node: Annotated[str, Field(description="ID of the node that executes it: the flow's leader")]
    effect: Annotated[str, Field(description="what happens now")]


COMMAND_RESPONSE = TypeAdapter(CommandResponse)


@dataclass(frozen=True, slots=True, kw_only=True)
class LossesResponse:
    """Every recorded loss of a flow."""

    flow: Annotated[str, Field(description="source->target")]
    losses: Annotated[tuple[Loss, ...], Field(description="in the order in which they were recorded")]


LOSSES_RESPONSE = TypeAdapter(LossesResponse)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDetails:
    """One node: its release, its process and its file."""

    node: Annotated[str, Field(description="node ID")]
    version: Annotated[str, Field(description="release of the node")]
    started: Annotated[int, Field(description="in milliseconds since 1970")]
    pid: Annotated[int, Field(description="its process; those of the engine and the lanes are children of it")]
    python: str
    system: Annotated[str, Field(description="operating system and machine")]
    file: FileStatus
    spark_ui: Annotated[str | None, Field(description="URL of Spark's UI; null: Spark does not run")]
    lane_buffers: tuple[LaneBuffer, ...]
    flows: Annotated[tuple[str, ...], Field(description="the flows of its file")]
    log: Annotated[tuple[str, ...], Field(description="the last lines of its log, oldest first; empty without ?log=N")]
    clusters: Annotated[
        tuple[ClusterStatus, ...], Field(description="the clusters of its flows, and whether they answer it")
    ] = ()
    engines: Annotated[
        tuple[EngineStatus, ...], Field(description="its Spark engines, also those that do not run")
    ] = ()
    lane_memory: tuple[LaneMemory, ...] = ()
    certificates: Annotated[
        tuple[CertificateEnd, ...],
        Field(description="certificates that the node uses or has seen: of each cluster and kind the first to end"),
    ] = ()
    renewals: Annotated[
        Mapping[str, str | None],
        Field(
            description="by alias of each cluster for which the node renews tokens or tickets: why that fails; null: it"
            " does not"
        ),
    ] = field(default_factory=dict)


NODE_DETAILS = TypeAdapter(NodeDetails)
