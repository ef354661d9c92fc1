"""``kafka-mirror-maker``: checks the command line and its files, and runs the mirror."""

from __future__ import annotations

import gc
import sys

from mm2.cli.errors import DONE, USAGE
from mm2.cli.version import version as print_version
from mm2.core.mirror1.settings import MirrorSettings


def mirror_maker(*, check: bool = False, version: bool = False, **given: object) -> int:
    """Run the mirror, or only ``check`` it; return the exit code."""
    if version:
        return print_version()
    from mm2.cli.mirror1.command_line import mirror_options  # noqa: PLC0415 --version need not wait for it
    from mm2.config.grammar.problem_report import summary, write_problems  # noqa: PLC0415
    from mm2.config.mirror1.load import load  # noqa: PLC0415

    loaded = load(mirror_options(given))
    out = sys.stdout if check else sys.stderr
    write_problems(loaded.problems, out)
    if loaded.settings is None:
        print(f"kafka-mirror-maker: {summary(loaded.problems)}", file=out)
        return USAGE
    if check:
        print(f"ok: {_described(loaded.settings)}", file=out)
        return DONE
    return _run(loaded.settings)


def _described(settings: MirrorSettings) -> str:
    groups = ", ".join(
        f"group {one.group.group_id} at {_place(one.client.bootstrap_servers)}" for one in settings.consumers
    )
    topics = f"topics {settings.include}" if settings.include is not None else f"all topics but {settings.exclude}"
    return f"{topics}; {groups} -> {_place(settings.target.bootstrap_servers)}"


def _place(servers: tuple[str, ...]) -> str:
    return ",".join(servers) or "brokers in ZooKeeper"


def _run(settings: MirrorSettings) -> int:
    gc.disable()  # as in mm2.app
    try:
        from mm2.mirror1.process import run  # noqa: PLC0415 --check need not wait for it
    finally:
        gc.enable()
    if settings.target_zookeeper is not None or any(one.zookeeper is not None for one in settings.consumers):
        from mm2.cli.mirror1.zookeeper_brokers import with_brokers  # noqa: PLC0415 few files need kazoo
        from mm2.cli.mirror1.zookeeper_offsets import with_old_offsets  # noqa: PLC0415 as above

        settings = with_old_offsets(with_brokers(settings))
    return run(settings)
