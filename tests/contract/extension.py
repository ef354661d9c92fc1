"""Example modules: an endpoint, an endpoint merged from all nodes of a flow, and a command."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import ClassVar

from fastapi import APIRouter
from pydantic import TypeAdapter

from mm2.core.coordination.commands import CommandType
from mm2.rest.endpoint import Endpoint, RestContext
from mm2.rest.merge.cluster_view import ShareType


def _version(context: RestContext) -> APIRouter:
    router = APIRouter()

    @router.get("/version", summary="The node's release")
    def version() -> str:
        return context.status().version

    return router


VERSION = Endpoint(router=_version)

HEARTBEATS_SHARE = ShareType(
    name="heartbeats",
    dump=lambda _, flow: json.dumps(flow.heartbeats_total).encode(),
    read=lambda body, _: int(json.loads(body)),
    timeout_s=5.0,
)


def _heartbeats(context: RestContext) -> APIRouter:
    router = APIRouter()

    @router.get("/heartbeats", summary="Heartbeats of each flow, written by any of its nodes")
    async def heartbeats() -> dict[str, int]:
        now = context.status()
        found = {flow.flow: await context.view.shares(HEARTBEATS_SHARE, now, flow) for flow in now.flows}
        return {
            flow.flow: flow.heartbeats_total + sum(one for one in found[flow.flow].values() if isinstance(one, int))
            for flow in now.flows
        }

    return router


HEARTBEATS = Endpoint(router=_heartbeats, share=HEARTBEATS_SHARE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Announce:
    """Announce ``text`` on every node."""

    command: ClassVar[str] = "announce"
    text: str


def _request(text: str) -> Announce:
    return Announce(text=text)


async def _carry_out(command: Announce, published: list[Announce]) -> str:
    published.append(command)
    return f"announced on every node: {command.text}"


def _on_every_node(command: Announce, announcements: list[str]) -> None:
    announcements.append(command.text)


ANNOUNCE = CommandType(
    path="announce/{text}",
    request=_request,
    parse=TypeAdapter(Announce).validate_python,
    summary="Announce something",
    description="On every node.",
    carry_out=_carry_out,
    on_every_node=_on_every_node,
)
