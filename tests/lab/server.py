"""Base class of the lab's servers: they run in a ``with`` block and leave nothing behind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Server(ABC):
    """Started on entering the ``with`` block, closed on leaving it or if the start fails."""

    @abstractmethod
    def start(self) -> Self:
        """Start it and wait until it serves."""

    @abstractmethod
    def close(self) -> None:
        """Stop it immediately."""

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
