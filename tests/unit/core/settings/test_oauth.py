from __future__ import annotations

import pytest

from mm2.core.settings.oauth import (
    AssertionFile,
    ClientAssertionGrant,
    JwtBearerGrant,
    OAuthLogin,
    SecretGrant,
    SignedAssertion,
    TokenEndpoint,
    TokenFile,
    TokenPlugin,
    TokenSource,
    UnsecuredToken,
)
from mm2.core.settings.tls import TlsSettings

URL = "sasl.oauthbearer.token.endpoint.url"
ASSERTION = "sasl.oauthbearer.assertion"
TLS = TlsSettings(ca_pem="ca", key_pem="key", key_password="key password")
SIGNED = SignedAssertion(private_key="pem", template="{}")


def endpoint(
    grant: SecretGrant | ClientAssertionGrant | JwtBearerGrant, tls: TlsSettings | None = None
) -> TokenEndpoint:
    return TokenEndpoint(url="https://idp", grant=grant, tls=tls)


@pytest.mark.parametrize(
    ("source", "user", "secrets", "files"),
    [
        (endpoint(SecretGrant(client_id="mm2", client_secret="s")), "mm2", ("s",), {}),
        (
            endpoint(SecretGrant(client_id="mm2", client_secret="s"), TLS),
            "mm2",
            ("s", "key", "key password"),
            {"sasl.jaas.config": ("ca", None, "key")},
        ),
        (
            endpoint(ClientAssertionGrant(client_id=None, assertion=AssertionFile(jwt="j"))),
            "",
            ("j",),
            {f"{ASSERTION}.file": ("j",)},
        ),
        (
            endpoint(ClientAssertionGrant(client_id="c", assertion=AssertionFile(jwt=""))),
            "c",
            (),
            {f"{ASSERTION}.file": ("",)},
        ),
        (
            endpoint(JwtBearerGrant(assertion=SIGNED)),
            "",
            ("pem",),
            {f"{ASSERTION}.private.key.file": ("pem",), f"{ASSERTION}.template.file": ("{}",)},
        ),
        (TokenFile(jwt="t"), "", ("t",), {URL: ("t",)}),
        (UnsecuredToken(claims="{}"), "", (), {}),
        (TokenPlugin(import_string="m:C", secrets=("p",)), "", ("p",), {}),
    ],
)
def test_user_secrets_and_files(
    source: TokenSource, user: str, secrets: tuple[str, ...], files: dict[str, tuple[str | None, ...]]
) -> None:
    login = OAuthLogin(source=source)
    assert (login.user, login.secrets, login.file_contents) == (user, secrets, files)
    assert hash(login) == hash(OAuthLogin(source=source))
