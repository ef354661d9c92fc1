"""Header and claims of an assertion, the JWT with which a client proves its identity (KIP-1139).

As in Java's LayeredAssertionJwtTemplate, the template file overrides sasl.oauthbearer.assertion.claim.*, and the times
and the algorithm override both.
"""

from __future__ import annotations

import json
from typing import Any

from mm2.core.settings.oauth import SignedAssertion


def read_template(text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return ``header`` and ``payload`` of a template; either can be missing. Raises ValueError with the rule."""
    try:
        template = json.loads(text)
    except ValueError as error:
        raise ValueError(f"is not JSON: {error}") from error
    if not isinstance(template, dict):
        raise ValueError('must be a JSON object with the objects "header" and "payload"')  # noqa: TRY004 - of the text  # noqa: TRY004 - of the text
    header, payload = template.get("header", {}), template.get("payload", {})
    if not isinstance(header, dict) or not isinstance(payload, dict):
        raise ValueError('"header" and "payload" must be JSON objects')  # noqa: TRY004 - of the text  # noqa: TRY004 - of the text
    return header, payload


def assertion_sections(
    settings: SignedAssertion, *, now: float, unique_id: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return header and claims of a new assertion. ``now`` is seconds since the epoch; ``unique_id`` becomes the claim
    jti, if it is wanted."""
    header, payload = ({}, {}) if settings.template is None else read_template(settings.template)
    seconds = int(now)
    times: dict[str, Any] = {
        "iat": seconds,
        "exp": seconds + settings.exp_seconds,
        "nbf": seconds - settings.nbf_seconds,
    }
    jti = {"jti": unique_id} if settings.jti else {}
    return {**header, "alg": settings.algorithm, "typ": "JWT"}, {**dict(settings.claims), **payload, **times, **jti}
