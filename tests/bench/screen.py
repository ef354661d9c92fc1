"""Output of the benchmark while it runs: a line for each finished phase, and on terminals a progress bar."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

DRAWN_EVERY = 0.5  # seconds: drawing costs milliseconds on the machine that is being measured

ReportProgress = Callable[[int], None]


class Screen:
    """Prints phases and their progress. Draws only when progress is reported, never from a background thread."""

    def __init__(self, console: Console) -> None:
        self._console = console

    @contextmanager
    def phase(self, title: str, total: int) -> Iterator[ReportProgress]:
        """Show a bar that the yielded function sets to a number; print the elapsed time at the end."""
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

            def report_progress(number: int) -> None:
                nonlocal drawn
                progress.update(task, completed=number)
                if time.monotonic() - drawn > DRAWN_EVERY:
                    drawn = time.monotonic()
                    progress.refresh()

            yield report_progress
        self.say(f"{title}: {time.monotonic() - began:.1f} s")

    def say(self, what: RenderableType) -> None:
        """Print a table, or a line without markup."""
        self._console.print(what, markup=False, highlight=False, soft_wrap=not isinstance(what, Table))
