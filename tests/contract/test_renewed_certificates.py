"""Certificates of a listener that are replaced while the node runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from mm2.core.settings.listener import ListenerSettings
from mm2.node.supervisor import Node
from mm2.program.serving import Serving
from tests.contract.certificates import https_file
from tests.lab.listeners import Authority

NODE = SimpleNamespace(
    leader_context=None,
    carry_out=None,
    audit=None,
    losses=None,
    query_histories=None,
    story=None,
    translate=None,
    log=None,
    published=None,
)


@pytest.fixture
async def serving(tmp_path: Path) -> AsyncIterator[Serving]:
    one = Serving(https_file(Authority(), tmp_path), cast(Node, NODE))
    await one.open()
    yield one
    await one.close()


def issued(directory: Path, name: str) -> ListenerSettings:
    """Return listeners with a new certificate."""
    (directory / name).mkdir()
    return https_file(Authority(), directory / name).listening


def with_key_of(one: ListenerSettings, other: ListenerSettings) -> ListenerSettings:
    """Return listeners whose certificate and key do not match."""
    assert one.tls is not None
    assert other.tls is not None
    return replace(one, tls=replace(one.tls, tls=replace(one.tls.tls, key_pem=other.tls.tls.key_pem)))


async def test_rejected_certificates_change_nothing(
    serving: Serving, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Lanes and other nodes must not be told to trust a certificate that no listener presents."""
    first, peers = serving.lease_place(), serving._peers
    assert peers is not None
    used = peers._current
    wrong = with_key_of(issued(tmp_path, "wrong"), issued(tmp_path, "other"))
    assert not serving.renew(wrong)
    assert "keeping the previous certificates" in caplog.text
    assert (serving.lease_place(), peers._current) == (first, used)
    assert not serving.renew(wrong)
    right = issued(tmp_path, "right")
    assert serving.renew(right)
    assert serving.lease_place() != first
    assert peers._current is not used
    assert not serving.renew(right)
