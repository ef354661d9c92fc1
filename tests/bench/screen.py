"""What the benchmark shows while it runs: a bar on a terminal, a line for each finished phase everywhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

DRAWN_EVERY = 0.5  # seconds: drawing takes milliseconds of a machine that is being measured

Told = Callable[[int], None]


class Screen:
    """Nothing is drawn by a thread in the background: only when somebody tells how far things are."""

    def __init__(self, console: Console) -> None:
        self._console = console

    @contextmanager
    def phase(self, title: str, total: int) -> Iterator[Told]:
        """A bar that the yielded call moves to a number; a line with the time it took at the end."""
        began = time.monotonic()
        drawn = began
        progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self._console,
            auto_refresh=False,
            transient=True,
            disable=not self._console.is_terminal,
        )
        with progress:
            task = progress.add_task(title, total=total)
            progress.refresh()

            def told(number: int) -> None:
                nonlocal drawn
                progress.update(task, completed=number)
                if time.monotonic() - drawn > DRAWN_EVERY:
                    drawn = time.monotonic()
                    progress.refresh()

            yield told
        self.say(f"{title}: {time.monotonic() - began:.1f} s")

    def say(self, what: RenderableType) -> None:
        """Print a line as it is, or a table."""
        self._console.print(what, markup=False, highlight=False, soft_wrap=not isinstance(what, Table))
