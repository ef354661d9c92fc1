"""What an operator reads if stored offsets are gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from mm2.core.naming import internal_topics
from mm2.node.store.worker_topics import gone_text
from tests.unit.config import files


@pytest.mark.parametrize(
    ("lines", "options"),
    [
        ("", " --partitions 25 --replication-factor 3"),
        ("offset.storage.partitions = -1\noffset.storage.replication.factor = -1\n", ""),
    ],
)
def test_the_command_leaves_out_defaults_of_the_brokers(tmp_path: Path, lines: str, options: str) -> None:
    """kafka-topics.sh accepts no -1: without the option, the brokers decide."""
    settings = files.flow(tmp_path, lines)
    offsets = internal_topics.source_offsets(settings.flow, partitions=settings.storage.offsets.partitions)
    text = gone_text(settings, offsets, internal_topics.configs(settings.flow), is_absent=True)
    assert text.endswith(
        f"run kafka-topics.sh --create --topic mm2-offsets.A.internal{options} --config cleanup.policy=compact"
    )
