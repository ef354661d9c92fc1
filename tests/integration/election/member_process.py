"""``python -m tests.integration.election.member_process KIND WHERE NAME NODE``: a member in a separate process.

Prints one JSON object per line: ``{"at", "event", …}`` for each event, and ``{"at", "leads": generation}`` each time it
checks and is the leader. ``at`` is the machine's monotonic clock in seconds, read before the check. SIGUSR1 blocks its
event loop. It does not exit on its own.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mm2.election.protocol import Election, Joined
from tests.integration.election.members import info, names
from tests.integration.election.stores import Place, elect
from tests.lab import scratch
from tests.lab.processes import LabProcess
from tests.lab.waiting import until

ROOT = Path(__file__).parents[3]
CHECK_EVERY = 0.02  # seconds between two checks whether this member leads
HANGS = 600.0  # seconds: longer than any test


def start(place: Place, name: str, node: str) -> MemberProcess:
    """Start a member of election ``name``."""
    command = (sys.executable, "-m", __spec__.name, place.kind, place.where, name, node)
    log = scratch.directory(f"member-{node}") / "member.log"
    return MemberProcess(LabProcess(f"member-{node}", command, log, cwd=ROOT))


@dataclass(frozen=True, slots=True)
class MemberProcess:
    """A running member and what it has printed so far."""

    process: LabProcess

    @property
    def lines(self) -> list[dict[str, Any]]:
        complete = self.process.output().rpartition("\n")[0].splitlines()
        return [json.loads(line) for line in complete if line.startswith("{")]

    @property
    def events(self) -> list[dict[str, Any]]:
        return [line for line in self.lines if "event" in line]

    def leads(self, *, after: int = -1) -> list[tuple[float, int]]:
        """Return (time, generation) of every check at which it led."""
        return [(line["at"], line["leads"]) for line in self.lines if line.get("leads", -1) > after]

    async def until(self, event: str, timeout: float, *, after: float = 0.0) -> dict[str, Any]:
        """Wait for the first such event after a point in time and return it."""
        seen = await until(
            lambda: [one for one in self.events if one["event"] == event and one["at"] > after],
            timeout,
            f"{self.process.name}: {event}",
        )
        return seen[0]


async def _member(kind: str, where: str, name: str, node: str) -> None:
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, time.sleep, HANGS)
    async with elect(kind, where, name, info(node), names) as election, election, asyncio.TaskGroup() as both:
        both.create_task(_check_leadership(election))
        both.create_task(_record(election))


async def _check_leadership(election: Election) -> None:
    while True:
        now = time.monotonic()
        membership = election.membership
        if isinstance(membership, Joined) and membership.is_leader:
            print(json.dumps({"at": now, "leads": membership.generation}), flush=True)
        await asyncio.sleep(CHECK_EVERY)


async def _record(election: Election) -> None:
    async for event in election.events():
        line: dict[str, Any] = {"at": time.monotonic(), "event": type(event).__name__}
        if isinstance(event, Joined):
            line |= {"generation": event.generation, "leader": event.leader_node}
        else:
            line |= {"reason": event.reason}
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    asyncio.run(_member(*sys.argv[1:]))
