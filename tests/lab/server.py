"""What the lab's servers share: within a ``with`` they run, and nothing of them is left after it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Server(ABC):
    """Started when the ``with`` is entered, closed when it is left, or when the start failed."""

    @abstractmethod
    def start(self) -> Self:
        """Start it and wait until it serves."""

    @abstractmethod
    def close(self) -> None:
        """End it at once."""

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
