"""Small consumer and producer files for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mm2.config.mirror1.load import LoadedMirror, load
from mm2.config.mirror1.options import MirrorOptions
from mm2.core.mirror1.settings import MirrorSettings

CONSUMER = "bootstrap.servers=a:9092\ngroup.id=mirror\n"
PRODUCER = "bootstrap.servers=b:9092\n"


def loaded(
    directory: Path,
    consumer: str = "",
    producer: str = "",
    *,
    start: tuple[str, str] = (CONSUMER, PRODUCER),
    **given: Any,
) -> LoadedMirror:
    (directory / "consumer.properties").write_text(start[0] + consumer, "iso-8859-1")
    (directory / "producer.properties").write_text(start[1] + producer, "iso-8859-1")
    options = {
        "consumer_files": (directory / "consumer.properties",),
        "producer_file": directory / "producer.properties",
        "include": ".*",
        **given,
    }
    return load(MirrorOptions(**options))


def settings(directory: Path, consumer: str = "", producer: str = "", **given: Any) -> MirrorSettings:
    result = loaded(directory, consumer, producer, **given)
    assert result.settings is not None, "\n".join(map(str, result.problems))
    return result.settings


def messages(found: LoadedMirror) -> list[str]:
    """Return the problems without their fix, and without the directory."""
    return [problem.headline.removeprefix(f"{Path(problem.file).parent}/") for problem in found.problems]
