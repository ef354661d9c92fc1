"""What the command line of ``kafka-mirror-maker`` asks for, before its files are read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mm2.core.mirror1.settings import Partitioning

PROGRAM = "kafka-mirror-maker"


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorOptions:
    """The options, by the names of Kafka's kafka.tools.MirrorMaker.

    ``include`` and ``exclude`` are texts of --include (or --whitelist) and --blacklist as they were given, None if they
    were not. ``streams`` None: --num.streams was not given. ``handler`` and ``listener`` are ``module:Class``.
    ``listeners``: URLs separated by commas.
    ``without_effect`` are options that were given and change nothing here.
    """

    consumer_files: tuple[Path, ...]
    producer_file: Path
    include: str | None = None
    exclude: str | None = None
    streams: int | None = None
    commit_interval_ms: int = 60_000
    abort_on_send_failure: bool = True
    partitions: Partitioning = Partitioning.SAME
    handler: str | None = None
    handler_arguments: str | None = None
    listener: str | None = None
    listener_arguments: str | None = None
    listeners: str | None = None
    without_effect: tuple[str, ...] = ()
