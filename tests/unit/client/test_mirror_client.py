from __future__ import annotations

import re
from typing import Any

import pytest

from mm2.client import AsyncMirrorClient, MirrorClient

NOWHERE = {"bootstrap.servers": "127.0.0.1:1"}


@pytest.mark.parametrize(
    ("group", "alias", "message"),
    [
        (None, "A", "consumer_group must be a group's name or a compiled pattern of names, not None"),
        (["billing"], "A", r"not \['billing'\]"),
        (re.compile(b"bill.*"), "A", "not re.compile"),
        ("billing", None, "remote_cluster_alias must be a string, not None"),
        (re.compile("bill.*"), None, "remote_cluster_alias must be a string, not None"),
    ],
)
async def test_invalid_group_or_alias_is_rejected_before_any_request(group: Any, alias: Any, message: str) -> None:
    async with AsyncMirrorClient(NOWHERE) as client:
        with pytest.raises(TypeError, match=message):
            await client.remote_consumer_offsets(group, alias, timeout=30)
    with MirrorClient(NOWHERE) as waiting, pytest.raises(TypeError, match=message):
        waiting.translate_offsets(alias, group, timeout=30)
