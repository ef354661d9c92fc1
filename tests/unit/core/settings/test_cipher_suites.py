from __future__ import annotations

import pytest

from mm2.core.settings.cipher_suites import TLS13_SUITES, CipherChoice, choose, openssl_name


def test_names_of_java() -> None:
    assert openssl_name("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384") == "ECDHE-RSA-AES256-GCM-SHA384"
    assert openssl_name("TLS_RSA_WITH_AES_128_CBC_SHA") == "AES128-SHA"
    name = "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"
    assert openssl_name(name) == "ECDHE-ECDSA-CHACHA20-POLY1305"
    assert openssl_name("AES128-SHA") == "AES128-SHA"


def test_selected_suites() -> None:
    modern = sorted(TLS13_SUITES)
    assert choose(modern) == CipherChoice(older=(), modern=True)
    assert choose(["AES128-SHA", *modern]) == CipherChoice(older=("AES128-SHA",), modern=True)
    assert choose(["AES128-SHA"]) == CipherChoice(older=("AES128-SHA",), modern=False)
    with pytest.raises(ValueError, match=r"TLS_AES_256_GCM_SHA384, TLS_CHACHA20_POLY1305_SHA256 would also be enabled"):
        choose(["TLS_AES_128_GCM_SHA256"])
