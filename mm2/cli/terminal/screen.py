"""Prints a view once, or repeatedly, to a terminal or a pipe."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.live import Live
from rich.segment import Segment
from rich.text import Text

from mm2.cli.errors import CommandError
from mm2.core.printable import printable_json, printable_lines

REFRESH_S = 2.0
"""Lanes report once a second: a shorter interval would often show the same numbers."""

WIDE = 400
"""Columns of output that is printed once. A narrow terminal wraps them, which is better than truncated offsets."""


class PrintableConsole(Console):
    """rich's console, for text that other programs chose. rich removes bells and a few others, but leaves ESC."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Return the segments of ``renderable``, without control characters in their text."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else printable_lines(text), style, control)


def show_once(view: Callable[[], RenderableType]) -> None:
    """Print ``view`` once."""
    PrintableConsole(width=WIDE, highlight=False).print(view())


def print_json(answer: object) -> None:
    """Print ``answer`` as JSON."""
    sys.stdout.write(printable_json(json.dumps(answer, ensure_ascii=False, indent=2)) + "\n")


def show_live(view: Callable[[], RenderableType]) -> None:
    """Print ``view`` every REFRESH_S until Ctrl-C. While it fails, print the error message instead."""
    console = PrintableConsole(width=None if sys.stdout.isatty() else WIDE, highlight=False)
    try:
        if not console.is_terminal:
            while True:
                console.print(_or_error(view))
                time.sleep(REFRESH_S)
        with Live(_or_error(view), console=console, auto_refresh=False) as live:
            while True:
                time.sleep(REFRESH_S)
                live.update(_or_error(view), refresh=True)
    except KeyboardInterrupt:
        return  # the normal end


def _or_error(view: Callable[[], RenderableType]) -> RenderableType:
    try:
        return view()
    except CommandError as error:
        return Text(str(error), style="red")
