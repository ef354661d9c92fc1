"""``mm2 version`` and ``mm2 --version``."""

from __future__ import annotations

from importlib.metadata import version as installed

from mm2.cli.errors import DONE


def version() -> int:
    """Print the versions of mm2, PySpark and aiokafka."""
    print(f"mm2 {installed('mm2')}  (pyspark {installed('pyspark')}, aiokafka {installed('aiokafka')})")  # noqa: T201
    return DONE
