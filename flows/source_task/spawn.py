"""The type of the function that starts background work of a source task."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

Spawn = Callable[[Coroutine[Any, Any, None]], object]
"""Runs a coroutine in the background; an error that it does not handle ends the source task."""
