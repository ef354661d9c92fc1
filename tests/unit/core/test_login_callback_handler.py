from __future__ import annotations

from mm2.core.plugins import LoginCallbackHandler, OAuthBearerToken


class WithoutProperties(LoginCallbackHandler):
    def token(self) -> OAuthBearerToken:
        return OAuthBearerToken(value="jwt", expires_at_ms=1)


def test_properties_need_not_be_received() -> None:
    handler = WithoutProperties()
    handler.configure({"sasl.mechanism": "OAUTHBEARER"}, {})
    assert handler.token().value == "jwt"
