from __future__ import annotations

import base64
import json

import pytest

from mm2.core.oauth.tokens import TokenInvalid, encode, encode_bytes, read_jwt, token_of_response, unsecured_token


def jwt(**claims: object) -> str:
    return f"{encode({'alg': 'RS256'})}.{encode(claims)}.{encode_bytes(b'signature')}"


def test_claims() -> None:
    token = read_jwt(f" {jwt(exp=1_000, iat=900.5, sub=' mm2 ')}\n")
    assert (token.value, token.expires_at, token.issued_at, token.principal) == (
        jwt(exp=1_000, iat=900.5, sub=" mm2 "),
        1_000,
        900.5,
        "mm2",
    )
    assert token.value not in repr(token)


def test_another_claim_with_the_principal() -> None:
    assert read_jwt(jwt(exp=1, sub="id", client="mm2"), sub_claim="client").principal == "mm2"
    assert read_jwt(jwt(exp=1, sub="id")).issued_at is None


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", "not a JWT"),
        ("opaque", "not a JWT"),
        ("a.b", "not a JWT"),
        ("a.b!.c", "not a JWT"),
        (f"e30.{encode_bytes(b'not JSON')}.c", "payload of the JWT is not JSON"),
        ("e30.abcde.c", "payload of the JWT is not JSON"),
        (f"e30.{encode_bytes(bytes([0xFF, 0xFE]))}.c", "payload of the JWT is not JSON"),
        (f"e30.{encode_bytes(b'[]')}.c", "not a JSON object"),
        (jwt(sub="mm2"), "no claim exp"),
        (jwt(sub="mm2", exp="soon"), "no claim exp"),
        (jwt(sub="mm2", exp=True), "no claim exp"),
        (jwt(sub="mm2", exp=1, iat="now"), "claim iat"),
        (jwt(exp=1), "no claim sub: check sasl.oauthbearer.sub.claim.name"),
        (jwt(exp=1, sub=" "), "no claim sub"),
        (jwt(exp=1, sub=7), "no claim sub"),
    ],
)
def test_invalid_tokens(text: str, rule: str) -> None:
    with pytest.raises(TokenInvalid, match=rule):
        read_jwt(text)


@pytest.mark.parametrize(
    ("body", "token"),
    [
        ('{"access_token": " a ", "id_token": "b"}', "a"),
        ('{"id_token": "b"}', "b"),
        ('{"access_token": "", "id_token": "b"}', "b"),
    ],
)
def test_token_of_a_response(body: str, token: str) -> None:
    assert token_of_response(body) == token


@pytest.mark.parametrize(
    ("body", "rule"), [("<html>", "not JSON"), ("[]", "no access_token"), ('{"access_token": 7}', "no access_token")]
)
def test_responses_without_a_token(body: str, rule: str) -> None:
    with pytest.raises(TokenInvalid, match=rule):
        token_of_response(body)


def test_unsecured_tokens() -> None:
    header, payload, signature = unsecured_token('{"sub": "mm2"}', now=1_000.5, lifetime=60).split(".")
    assert (header, signature) == (encode({"alg": "none"}), "")
    assert payload == encode(json.loads('{"exp": 1060.5, "iat": 1000.5, "sub": "mm2"}'))


def test_deeply_nested_json_is_rejected_like_any_other() -> None:
    deep = "[" * 200_000
    payload = base64.urlsafe_b64encode(deep.encode()).decode()
    with pytest.raises(TokenInvalid, match="the payload of the JWT is not JSON"):
        read_jwt(f"e30.{payload}.e30")
    with pytest.raises(TokenInvalid, match="the response is not JSON") as caught:
        token_of_response('{"access_token": "secret", "deep": ' + deep)
    assert caught.value.__cause__ is None
