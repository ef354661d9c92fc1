from __future__ import annotations

import pytest

from mm2.core.oauth.assertion import assertion_sections, read_template
from mm2.core.settings.oauth import SignedAssertion


def test_layers() -> None:
    """The template overrides the properties, times and algorithm override both."""
    settings = SignedAssertion(
        algorithm="ES256",
        private_key="",
        claims=(("aud", "idp"), ("iss", "mm2"), ("sub", "a")),
        template='{"header": {"kid": "k", "alg": "none"}, "payload": {"sub": "b", "exp": 1, "jti": "x"}}',
        exp_seconds=30,
        nbf_seconds=5,
        jti=True,
    )
    header, payload = assertion_sections(settings, now=1_000.9, unique_id="u")
    assert header == {"kid": "k", "alg": "ES256", "typ": "JWT"}
    assert payload == {"aud": "idp", "iss": "mm2", "sub": "b", "iat": 1_000, "exp": 1_030, "nbf": 995, "jti": "u"}


def test_without_template_and_unique_id() -> None:
    header, payload = assertion_sections(SignedAssertion(private_key=""), now=0, unique_id="u")
    assert header == {"alg": "RS256", "typ": "JWT"}
    assert payload == {"iat": 0, "exp": 300, "nbf": -60}


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("{", "is not JSON"),
        ("[]", "must be a JSON object"),
        ('{"header": 1}', "must be JSON objects"),
        ('{"payload": []}', "must be JSON objects"),
    ],
)
def test_invalid_templates(text: str, rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        read_template(text)
