"""The nodes of the demo: one or several on one flow, of which any may be killed from another terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from tests.demo.picture import Look, look, together
from tests.lab.node import Node

AGAIN_AFTER = 20.0  # seconds after a node was killed: long enough to see the others take over, and that it stays so


class Crew:
    """``killed``: whether any node ended other than by `stop`; records may then be there twice."""

    def __init__(self, nodes: list[Node], say: Callable[[str], None]) -> None:
        self.nodes = nodes
        self.killed = False
        self._say = say
        self._newest: dict[int, Look] = {}  # by process id, so that a node that is started again counts anew
        self._ended_at: dict[str, float] = {}

    def look(self, at: float) -> Look | None:
        """All nodes as one; None while none answers."""
        for node in self.nodes:
            seen = look(node, at) if node.process.running else None
            if seen is not None:
                self._newest[node.process.pid] = seen
        alive = {node.process.pid for node in self.nodes if node.process.running}
        return together(
            (one for pid, one in self._newest.items() if pid in alive and one.at == at),
            (one for pid, one in self._newest.items() if pid not in alive),
            at,
        )

    def lines(self) -> tuple[str, ...]:
        """Where a node can be killed, and what it runs; nothing where there is only one."""
        return tuple(self._line(node) for node in self.nodes) if len(self.nodes) > 1 else ()

    def keep(self) -> bool:
        """Start nodes again that were killed some time ago. False when all have ended: there is nothing to see."""
        now = time.monotonic()
        for node in self.nodes:
            if node.process.running:
                continue
            if node.name not in self._ended_at:
                self.killed = True
                self._ended_at[node.name] = now
                self._say(f"{node.name} is gone; the others take over, and it is started again in {AGAIN_AFTER:.0f} s")
            elif now - self._ended_at[node.name] > AGAIN_AFTER:
                del self._ended_at[node.name]
                node.start()
                self._say(f"{node.name} is started again, pid {node.process.pid}")
        return any(node.process.running for node in self.nodes)

    def stop(self) -> Iterable[tuple[Node, int]]:
        """Stop those that run, one after the other, and give their exit codes."""
        for node in self.nodes:
            if node.process.running:
                yield node, node.stop()

    def _line(self, node: Node) -> str:
        if not node.process.running:
            return f"{node.name}: gone"
        seen = self._newest.get(node.process.pid)
        tasks = ", ".join(seen.tasks) if seen is not None and seen.tasks else "nothing yet"
        leads = ", leads" if seen is not None and seen.leads else ""
        return f"{node.name} (kill -9 {node.process.pid}){leads}: {tasks}"
