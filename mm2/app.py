"""Entry points of the installed programs."""

from __future__ import annotations

import gc
import sys

gc.disable()  # while modules are imported: they are not garbage, and examining them takes up to a third of the CPU

from mm2.cli import commands  # noqa: E402 see above


def main() -> None:
    """Run ``mm2``."""
    sys.exit(commands.execute(commands.mm2_app(), sys.argv[1:]))


def connect_mirror_maker() -> None:
    """Run ``connect-mirror-maker``, with the command line of Kafka's script."""
    sys.exit(commands.execute(commands.java_app(), sys.argv[1:]))


def consumer_offset_checker() -> None:
    """Run ``kafka-consumer-offset-checker``, with the command line of Kafka's ConsumerOffsetChecker."""
    sys.exit(commands.execute(commands.checker_app(), sys.argv[1:]))


def kafka_mirror_maker() -> None:
    """Run ``kafka-mirror-maker``, with the command line of MirrorMaker 1."""
    sys.exit(commands.execute(commands.mirror1_app(), sys.argv[1:]))
