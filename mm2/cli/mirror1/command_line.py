"""Values of MirrorMaker 1's options, converted."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from mm2.cli.errors import UsageError
from mm2.config.mirror1.options import MirrorOptions
from mm2.core.mirror1.settings import Partitioning

_LARGEST = 2**31 - 1
"""Java's Integer."""


def mirror_options(given: Mapping[str, object]) -> MirrorOptions:
    """Return the options by the keywords of `mm2.cli.mirror1_table`. Raises UsageError for a wrong or missing one."""
    text = {name: value for name, value in given.items() if isinstance(value, str)}
    consumers, producer = given.get("consumer_config"), text.get("producer_config")
    if not isinstance(consumers, tuple):
        raise UsageError("--consumer.config is missing: give the file of the consumer.")
    if producer is None:
        raise UsageError("--producer.config is missing: give the file of the producer.")
    if "listener" in text and "listener_too" in text:
        raise UsageError("--rebalance.listener and --consumer.rebalance.listener are the same option: give one.")
    return MirrorOptions(
        consumer_files=tuple(map(Path, consumers)),
        producer_file=Path(producer),
        include=text.get("include", text.get("whitelist")),
        exclude=text.get("blacklist"),
        streams=_whole_number("--num.streams", text.get("num_streams"), 1),
        commit_interval_ms=_commit_interval(text.get("commit_interval")),
        abort_on_send_failure=_switch("--abort.on.send.failure", text.get("abort", "true")),
        partitions=_partitioning(text.get("partitions", Partitioning.SAME)),
        handler=text.get("handler"),
        handler_arguments=text.get("handler_args"),
        listener=text.get("listener", text.get("listener_too")),
        listener_arguments=text.get("listener_args"),
        listeners=text.get("listeners"),
        without_effect=tuple(
            option
            for name, option in (
                ("new_consumer", "--new.consumer"),
                ("new_producer", "--new.producer"),
                ("num_producers", "--num.producers"),
                ("queue_size", "--queue.size"),
                ("whitelist", "--whitelist"),
            )
            if name in given and (name != "whitelist" or "include" in given)
        ),
    )


def _whole_number(option: str, text: str | None, lowest: int) -> int | None:
    if text is None:
        return None
    number = int(text) if text.strip().isdecimal() and text.isascii() else -1
    if not lowest <= number <= _LARGEST:
        raise UsageError(f"{option} {text}: must be a whole number of at least {lowest}.")
    return number


def _commit_interval(text: str | None) -> int:
    """Return milliseconds; with 0 MirrorMaker 1 commits after each poll."""
    given = _whole_number("--offset.commit.interval.ms", text, 0)
    return 60_000 if given is None else given


def _switch(option: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise UsageError(f"{option} {text}: must be true or false.")
    return text.lower() == "true"


def _partitioning(text: str) -> Partitioning:
    if text not in list(Partitioning):
        raise UsageError(f"--partitions {text}: must be same or key.")
    return Partitioning(text)
