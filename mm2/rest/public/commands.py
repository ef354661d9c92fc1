"""Endpoints of commands: for operators under /flows/…, and a signed one by which nodes forward them to the leader.

Without mm2.rest.admin = true a node rejects both, and leaves them out of GET /docs.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response, status
from fastapi.routing import APIRoute
from pydantic import Field
from starlette.types import Message

from mm2.core.access.audit import (
    MOST_REASON,
    AuditOutcome,
    CommandOrigin,
    decided_elsewhere,
    of_command,
    read_origin,
)
from mm2.core.access.callers import Caller
from mm2.core.coordination.commands import Command, CommandRefusedError, CommandType, as_message, parse_message
from mm2.core.coordination.leader_context import LeaderContext, SendOn
from mm2.core.naming.names import Flow
from mm2.core.wire.json_bytes import decode_json
from mm2.rest.endpoint import Endpoint, RestContext
from mm2.rest.internal.peers import PeerRequest
from mm2.rest.internal.signed_calls import RefusalError, SignedCall, by_leader, leader_context_of, signed_call
from mm2.rest.public.flows import whole_flow
from mm2.rest.public.response_bodies import COMMAND_RESPONSE, CommandResponse
from mm2.rest.public.responses import JSON


def gated_route(gate: Callable[[Request], Caller | None], largest: int) -> type[APIRoute]:
    """Return a class of routes. ``gate`` returns the caller, which becomes ``request.state.caller``, or raises
    HTTPException for a request that it rejects, before its body is read; ``largest``: maximum bytes of a body."""

    class GatedRoute(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            handle = super().get_route_handler()

            async def checked(request: Request) -> Response:
                request.state.caller = gate(request)
                return await handle(with_limited_body(request, largest))

            return checked

    return GatedRoute


def with_limited_body(request: Request, largest: int) -> Request:
    """Return ``request`` with a body of which at most ``largest`` bytes are read; then HTTPException is raised, with
    status 413. A length in the headers is checked at once."""
    announced = request.headers.get("Content-Length", "")
    if announced.isdecimal() and int(announced) > largest:
        raise _too_large(largest)
    read = 0

    async def receive() -> Message:
        nonlocal read
        message = await request.receive()
        read += len(message.get("body", b""))
        if read > largest:
            raise _too_large(largest)
        return message

    return Request(request.scope, receive)


def _too_large(largest: int) -> HTTPException:
    return HTTPException(status.HTTP_413_CONTENT_TOO_LARGE, f"the body has more than {largest} bytes")


PATH = ("mm2", "commands")
"""Follows ``/{source}/{target}/``, like ``connectors`` of KIP-710."""

LARGEST_COMMAND = 512 * 1024
"""Maximum bytes of the body of a command: pause and resume can name 2,000 topics, each as long as Kafka allows."""

NO_COMMANDS = (
    "the command was forwarded to a node with commands disabled: set mm2.rest.admin = true in the files of all nodes "
    "of the flow"
)

_REFUSALS = {
    401: "missing or wrong token",
    403: "commands are disabled, or the connection is not encrypted",
    404: "no such flow, topic or task",
    409: "not possible in the current state",
    413: "body too large",
    422: "invalid body",
    503: "the node is starting",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRefusedResponse:
    """A command that was rejected."""

    detail: Annotated[str, Field(description="the reason, and what to do")]


def _router(context: RestContext) -> APIRouter:
    public = APIRouter(
        prefix="/flows/{source}/{target}",
        route_class=gated_route(context.gate.may_command, LARGEST_COMMAND),
        include_in_schema=context.gate.takes_commands,
        responses={code: {"model": CommandRefusedResponse, "description": text} for code, text in _REFUSALS.items()},
    )
    for name, kind in context.commands.items():
        public.add_api_route(
            f"/{kind.path}",
            _endpoint(context, kind),
            methods=["POST"],
            name=name,
            summary=kind.summary,
            description=kind.description,
            response_model=CommandResponse,
            status_code=status.HTTP_202_ACCEPTED,
        )

    async def require_commands() -> None:
        if not context.gate.takes_commands:
            raise RefusalError(HTTPStatus.FORBIDDEN, NO_COMMANDS)

    router = APIRouter()
    router.include_router(public)
    signed = Depends(signed_call(context.leader_contexts, token=context.gate.token))

    @router.post(
        f"/{{source}}/{{target}}/{'/'.join(PATH)}", include_in_schema=False, dependencies=[Depends(require_commands)]
    )
    async def passed_on(call: SignedCall = signed) -> Response:
        command, origin = _read(call.body, context)
        return await _audited(context, call.leader_context.flow, command, origin, call.forward)

    return router


def _read(body: bytes, context: RestContext) -> tuple[Command, CommandOrigin]:
    """Return a forwarded command, and where it comes from. Raises RefusalError."""
    try:
        message = decode_json(body, "command")
        origin = message.pop("origin", None) if isinstance(message, dict) else None
        return parse_message(message, context.commands), read_origin(origin, _new_id())
    except ValueError as error:
        raise RefusalError(HTTPStatus.BAD_REQUEST, "unknown command: do all nodes run the same release?") from error


def _new_id() -> str:
    return secrets.token_hex(8)


_REASON = Query(description="why: in audit records, pauses and accepted losses", max_length=MOST_REASON)


def _endpoint(context: RestContext, kind: CommandType) -> Callable[..., Awaitable[Response]]:
    request = Depends(kind.request)

    async def endpoint(
        http: Request,
        source: str,
        target: str,
        reason: Annotated[str | None, _REASON] = None,
        command: Any = request,
    ) -> Response:
        origin = CommandOrigin(id=_new_id(), caller=http.state.caller, reason=reason or None)
        return await _audited(context, Flow(source, target), command, origin, None)

    return endpoint


async def _audited(
    context: RestContext, flow: Flow, command: Command, origin: CommandOrigin, forward: bool | None
) -> Response:
    """Execute or forward a command, with one audit record before, and one after. Raises RefusalError."""

    def record(outcome: AuditOutcome, detail: str = "", *, stored: bool = False) -> None:
        now, node = time.time_ns() // 1_000_000, context.status().node_id
        context.audit(
            of_command(command, str(flow), origin, outcome, node=node, time_ms=now, detail=detail), stored=stored
        )

    record(AuditOutcome.ATTEMPTED)
    forwarded = False
    try:
        leader_context = leader_context_of(context.leader_contexts, flow.source, flow.target)
        forwarded = isinstance(leader_context.route(forward), SendOn)
        answer = await _by_leader(context, leader_context, command, origin, forward)
    except RefusalError as error:
        unknown = error.status == HTTPStatus.INTERNAL_SERVER_ERROR  # without an answer, or it has failed
        record(
            AuditOutcome.UNKNOWN if unknown else AuditOutcome.REJECTED,
            str(error),
            stored=not decided_elsewhere(error.status, forwarded=forwarded),
        )
        raise
    except BaseException as error:
        record(AuditOutcome.UNKNOWN, str(error) or type(error).__name__, stored=True)
        raise
    effect = COMMAND_RESPONSE.validate_json(answer).effect
    record(AuditOutcome.DONE, effect, stored=not decided_elsewhere(None, forwarded=forwarded))
    return Response(answer, status.HTTP_202_ACCEPTED, media_type=JSON)


async def _by_leader(
    context: RestContext, leader_context: LeaderContext, command: Command, origin: CommandOrigin, forward: bool | None
) -> bytes:
    async def carry_out() -> bytes:
        return COMMAND_RESPONSE.dump_json(await _carry_out(context, leader_context.flow, command, origin))

    message = {**as_message(command), "origin": origin.as_message(context.status().node_id)}
    body = json.dumps(message).encode()
    request = PeerRequest(method="POST", path=PATH, body=body, forward=forward, token=context.gate.token)
    return await by_leader(leader_context, request, carry_out, context.peers)


async def _carry_out(context: RestContext, flow: Flow, command: Command, origin: CommandOrigin) -> CommandResponse:
    try:
        effect = await context.carry_out(flow, command, origin, lambda: whole_flow(context, flow))
    except CommandRefusedError as error:
        code = HTTPStatus.NOT_FOUND if error.is_unknown else HTTPStatus.CONFLICT
        raise RefusalError(code, str(error)) from error
    return CommandResponse(flow=str(flow), command=command.command, node=context.status().node_id, effect=effect)


ENDPOINT = Endpoint(router=_router, needs_no_token=True)
