"""The endpoints of commands: for operators under /flows/…, and the signed one by which nodes pass them to the leader.

A node whose file does not say mm2.rest.admin = true refuses both, with a sentence, and leaves them out of its page.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from http import HTTPStatus
from typing import Protocol

from fastapi import APIRouter, Depends, Response, status
from pydantic import ValidationError

from mm2.core.commands import Command, CommandRefusedError, Pause, Refresh, RestartTask, Resume
from mm2.core.names import Flow
from mm2.core.standing import Standing
from mm2.rest.admin import AdminGate
from mm2.rest.command_shapes import COMMAND, COMMAND_TAKEN, CommandShape, RefusedCommandShape, TopicsShape
from mm2.rest.peers import PeerRequest, Peers
from mm2.rest.signed_calls import RefusalError, SignedCall, Standings, by_leader, signed_call, standing_of

PATH = ("mm2", "commands")
"""Behind ``/{source}/{target}/``, beside KIP-710's ``connectors``."""

NO_COMMANDS = (
    "the command was passed on to a node that takes none: let the files of all nodes of the flow say mm2.rest.admin = "
    "true"
)

_Send = Callable[[str, str, Command], Awaitable[Response]]

_REFUSALS = {
    401: "no token, or a wrong one",
    403: "commands are switched off, or the connection is not safe",
    404: "no such flow, topic or task",
    409: "not now",
    422: "the body is not what this takes",
    503: "the node is starting",
}


class CommandDesk(Protocol):
    """What the leader of a flow answers with."""

    async def carry_out(self, flow: Flow, command: Command) -> CommandShape:
        """Write ``command`` down where every node of the flow and the next leader will find it, and act on it. Carrying
        the same one out twice is harmless: a node that got no answer sends it again. Raises CommandRefusedError."""


def command_router(desk: CommandDesk, standings: Standings, peers: Peers, gate: AdminGate) -> APIRouter:
    """All endpoints of commands. Refusals need `signed_calls.add_refusals` on the application."""
    router = APIRouter()

    async def send(source: str, target: str, command: Command) -> Response:
        return await _by_leader(desk, peers, standing_of(standings, source, target), COMMAND.dump_json(command), None)

    _add_public(router, send, gate)
    signed = Depends(signed_call(standings))

    @router.post(f"/{{source}}/{{target}}/{'/'.join(PATH)}", include_in_schema=False)
    async def passed_on(call: SignedCall = signed) -> Response:
        if not gate.takes_commands:
            raise RefusalError(HTTPStatus.FORBIDDEN, NO_COMMANDS)
        return await _by_leader(desk, peers, call.standing, call.body, call.forward)

    return router


def _add_public(router: APIRouter, send: _Send, gate: AdminGate) -> None:
    public = APIRouter(
        prefix="/flows/{source}/{target}",
        dependencies=[Depends(gate)],
        include_in_schema=gate.takes_commands,
        responses={code: {"model": RefusedCommandShape, "description": text} for code, text in _REFUSALS.items()},
    )
    takes = partial(public.post, response_model=CommandShape, status_code=status.HTTP_202_ACCEPTED)

    @takes("/pause", summary="Pause a flow, or some of its topics")
    async def pause(source: str, target: str, topics: TopicsShape | None = None) -> Response:
        """Copying stops where it is; offsets stay. A pause outlives restarts and changes of the leader."""
        return await send(source, target, Pause(topics=topics.topics if topics else ()))

    @takes("/resume", summary="End a pause")
    async def resume(source: str, target: str, topics: TopicsShape | None = None) -> Response:
        """Copying goes on where it stopped."""
        return await send(source, target, Resume(topics=topics.topics if topics else ()))

    @takes("/tasks/{task}/restart", summary="Restart one task")
    async def restart(source: str, target: str, task: str) -> Response:
        """The task stops and starts anew, also one that has FAILED."""
        return await send(source, target, RestartTask(task=task))

    @takes("/refresh", summary="Look for topics and groups now")
    async def refresh(source: str, target: str) -> Response:
        """Topics, groups, configurations and ACLs are looked at now, not at the end of their intervals."""
        return await send(source, target, Refresh())

    router.include_router(public)


async def _by_leader(
    desk: CommandDesk, peers: Peers, standing: Standing, body: bytes, forward: bool | None
) -> Response:
    async def carry_out() -> bytes:
        return COMMAND_TAKEN.dump_json(await _carried_out(desk, standing.flow, body))

    request = PeerRequest(method="POST", path=PATH, body=body, forward=forward)
    answer = await by_leader(standing, request, carry_out, peers)
    return Response(answer, status.HTTP_202_ACCEPTED, media_type="application/json")


async def _carried_out(desk: CommandDesk, flow: Flow, body: bytes) -> CommandShape:
    try:
        return await desk.carry_out(flow, COMMAND.validate_json(body))
    except ValidationError as error:
        raise RefusalError(HTTPStatus.BAD_REQUEST, "this is no command: do all nodes run the same release?") from error
    except CommandRefusedError as error:
        code = HTTPStatus.NOT_FOUND if error.is_unknown else HTTPStatus.CONFLICT
        raise RefusalError(code, str(error)) from error
