"""Shows what a node says, once or again and again, on a terminal or in a pipe."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

from mm2.cli.trouble import CommandError

REFRESH_S = 2.0
"""Lanes report once a second: faster shows the same numbers again."""

WIDE = 400
"""Columns of what is printed once. On a narrow terminal lines go on in the next one: better than offsets cut short."""


def show_once(view: Callable[[], RenderableType]) -> None:
    """Print it."""
    Console(width=WIDE, highlight=False).print(view())


def show_live(view: Callable[[], RenderableType]) -> None:
    """Show it anew every REFRESH_S until Ctrl-C. A node that does not answer for a while is a sentence in its place."""
    console = Console(width=None if sys.stdout.isatty() else WIDE, highlight=False)
    try:
        if not console.is_terminal:
            while True:
                console.print(_or_sentence(view))
                time.sleep(REFRESH_S)
        with Live(_or_sentence(view), console=console, auto_refresh=False) as live:
            while True:
                time.sleep(REFRESH_S)
                live.update(_or_sentence(view), refresh=True)
    except KeyboardInterrupt:
        return  # the way to end it


def _or_sentence(view: Callable[[], RenderableType]) -> RenderableType:
    try:
        return view()
    except CommandError as error:
        return Text(str(error), style="red")
