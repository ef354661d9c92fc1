"""CPU time and memory of a running program and its descendants."""

from __future__ import annotations

import psutil

from tests.bench.ledger import CpuLedger, Identity, Sighting

MEMORY = "PSS" if psutil.LINUX else "RSS"  # PSS divides shared pages among processes, so the sum counts them once


def busy_seconds() -> float:
    """Return the busy CPU-seconds of all cores since boot, including time stolen by a hypervisor."""
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0))


class ProcessTree:
    """Samples a process and its descendants, including those whose parent has exited.

    Sample several times a second: a process that no parent waits for counts only by its last sample (`CpuLedger`).
    """

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)
        self._ledger = CpuLedger()
        self._members: dict[Identity, psutil.Process] = {_identity(self._root): self._root}
        self._peak = 0

    def cpu_seconds(self) -> float:
        """Return the CPU-seconds, user and system, since the program started."""
        sightings = []
        present = self._present()
        for identity, process in present.items():
            try:
                times, parent = process.cpu_times(), process.ppid()
            except psutil.NoSuchProcess:
                continue
            sightings.append(
                Sighting(
                    process=identity,
                    parent=next((one for one in present if one[0] == parent), None),
                    own=times.user + times.system,
                    waited=times.children_user + times.children_system,
                )
            )
        self._ledger.note(sightings)
        return self._ledger.total()

    def memory_bytes(self) -> int:
        """Return the current memory (kind: `MEMORY`) of all processes together, and update `peak_memory_bytes`."""
        total = 0
        for process in self._present().values():
            try:
                info = process.memory_full_info()
            except psutil.NoSuchProcess:
                continue
            total += info.pss if MEMORY == "PSS" else info.rss
        self._peak = max(self._peak, total)
        return total

    @property
    def peak_memory_bytes(self) -> int:
        """Maximum of all memory samples."""
        return self._peak

    def alive(self) -> list[psutil.Process]:
        """Return the running processes, without zombies."""
        running = []
        for process in self._present().values():
            try:
                if process.status() != psutil.STATUS_ZOMBIE:
                    running.append(process)
            except psutil.NoSuchProcess:
                continue
        return running

    def _present(self) -> dict[Identity, psutil.Process]:
        """Return the existing processes, parents before their children."""
        present: dict[Identity, psutil.Process] = {}
        for identity, process in self._members.items():
            if identity in present or not process.is_running():
                continue
            present[identity] = process
            try:
                present |= {_identity(child): child for child in process.children(recursive=True)}
            except psutil.NoSuchProcess:
                continue
        self._members = present
        return present


def _identity(process: psutil.Process) -> Identity:
    return process.pid, process.create_time()
