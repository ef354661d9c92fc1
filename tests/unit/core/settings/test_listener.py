from __future__ import annotations

import pytest

from mm2.core.settings.listener import ListenerSettings, ServerTls
from mm2.core.settings.tls import TlsSettings

WAITS = TlsSettings(unusable="cannot be read")


@pytest.mark.parametrize(
    ("listening", "unusable"),
    [
        (ListenerSettings(), False),
        (ListenerSettings(tls=ServerTls(tls=TlsSettings()), peers=TlsSettings()), False),
        (ListenerSettings(tls=ServerTls(tls=WAITS)), True),
        (ListenerSettings(peers=WAITS), True),
    ],
)
def test_listeners_that_wait_for_a_store(listening: ListenerSettings, unusable: bool) -> None:
    assert listening.unusable is unusable
