"""The flows of a file: the vectors of Java's MirrorMakerConfigTest."""

from __future__ import annotations

from pathlib import Path

import pytest

from mm2.config.load import load

OFF = "emit.heartbeats.enabled = false\n"


@pytest.mark.parametrize(
    ("clusters", "lines", "flows"),
    [
        ("a, b, c", "", "a->b a->c b->a b->c c->a c->b"),
        (
            "a, b, c",
            "a->b.emit.heartbeats.enabled = false\na->c.emit.heartbeats.enabled = false\n",
            "b->a b->c c->a c->b",
        ),
        (
            "a, b, c, d, e, f",
            OFF + "a->b.enabled = true\na->c.enabled = true\na->d.enabled = true\n",
            "a->b a->c a->d",
        ),
        (
            "central, one, two, beats",
            OFF
            + "central->one.enabled = true\ncentral->two.enabled = true\n"
            + "beats->central.emit.heartbeats.enabled = true\n",
            "central->one central->two beats->central",
        ),
    ],
)
def test_enabled_or_with_heartbeats(tmp_path: Path, clusters: str, lines: str, flows: str) -> None:
    names = clusters.split(", ")
    servers = "".join(f"{name}.bootstrap.servers = {name}:9092\n" for name in names)
    path = tmp_path / "mm2.properties"
    path.write_text(f"clusters = {clusters}\n{servers}{lines}")
    settings = load(path).settings
    assert settings is not None
    assert " ".join(str(flow.flow) for flow in settings.flows) == flows
