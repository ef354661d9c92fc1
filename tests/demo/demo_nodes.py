"""The nodes of the demo: one or several nodes of one flow, which can be killed from another terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from tests.demo.picture import Look, look, together
from tests.lab.node import Node

AGAIN_AFTER = 20.0  # seconds after a node was killed: enough to see the others take over


class DemoNodes:
    """``killed``: whether any node ended other than by `stop`; some records may then be replicated twice."""

    def __init__(self, nodes: list[Node], say: Callable[[str], None]) -> None:
        self.nodes = nodes
        self.killed = False
        self._say = say
        self._newest: dict[int, Look] = {}  # by process ID: the counters of a restarted node begin at 0
        self._ended_at: dict[str, float] = {}

    def look(self, at: float) -> Look | None:
        """Return the state of all nodes as one; None if none answers."""
        for node in self.nodes:
            seen = look(node, at) if node.process.running else None
            if seen is not None:
                self._newest[node.process.pid] = seen
        answered = {node.process.pid for node in self.nodes if node.process.running}
        answered = {pid for pid in answered if pid in self._newest and self._newest[pid].at == at}
        return together(
            (one for pid, one in self._newest.items() if pid in answered),
            (one for pid, one in self._newest.items() if pid not in answered),
            at,
        )

    def lines(self) -> tuple[str, ...]:
        """Return for each node how to kill it, and its tasks; nothing for a single node."""
        return tuple(self._line(node) for node in self.nodes) if len(self.nodes) > 1 else ()

    def keep(self) -> bool:
        """Restart nodes that were killed some time ago. Return False if all nodes have ended."""
        now = time.monotonic()
        for node in self.nodes:
            if node.process.running:
                continue
            if node.name not in self._ended_at:
                self.killed = True
                self._ended_at[node.name] = now
                self._say(f"{node.name} ended; the others take over, and it restarts in {AGAIN_AFTER:.0f} s")
            elif now - self._ended_at[node.name] > AGAIN_AFTER:
                del self._ended_at[node.name]
                node.start()
                self._say(f"{node.name} restarted, pid {node.process.pid}")
        return any(node.process.running for node in self.nodes)

    def stop(self) -> Iterable[tuple[Node, int]]:
        """Stop the running nodes one after the other, and yield their exit codes."""
        for node in self.nodes:
            if node.process.running:
                yield node, node.stop()

    def _line(self, node: Node) -> str:
        if not node.process.running:
            return f"{node.name}: stopped"
        seen = self._newest.get(node.process.pid)
        tasks = ", ".join(seen.tasks) if seen is not None and seen.tasks else "no tasks"
        leads = ", leads" if seen is not None and seen.leads else ""
        return f"{node.name} (kill -9 {node.process.pid}){leads}: {tasks}"
