from __future__ import annotations

import pytest

from mm2.core.oauth.messages import broker_error, extension_problem, initial_response


def test_initial_response() -> None:
    """As written by Java's OAuthBearerClientInitialResponse."""
    assert initial_response("a.b.c", ()) == b"n,,\x01auth=Bearer a.b.c\x01\x01"
    extensions = (("identityPoolId", "pool-1"), ("logicalCluster", "lkc 2"))
    assert initial_response("a", extensions) == (
        b"n,,\x01auth=Bearer a\x01identityPoolId=pool-1\x01logicalCluster=lkc 2\x01\x01"
    )


@pytest.mark.parametrize("token", ["", "a b", "a\x01b", "ä"])
def test_tokens_that_cannot_be_sent(token: str) -> None:
    with pytest.raises(ValueError, match="RFC 6750"):
        initial_response(token, ())


def test_extensions_that_cannot_be_sent() -> None:
    with pytest.raises(ValueError, match="must consist of letters"):
        initial_response("a", (("auth", "b"),))


@pytest.mark.parametrize(
    ("name", "value"), [("auth", "x"), ("a1", "x"), ("", "x"), ("a", ""), ("a", "\x01"), ("a", "ä")]
)
def test_invalid_extensions(name: str, value: str) -> None:
    assert extension_problem(name, value) is not None


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b'{"status":"invalid_token"}', "invalid_token"),
        (
            b'{"status":"insufficient_scope","scope":"kafka","openid-configuration":"https://x"}',
            "insufficient_scope (scope: kafka, openid-configuration: https://x)",
        ),
        (b"words", "words"),
        (b"[1]", "[1]"),
        (b"\xff", "\ufffd"),
    ],
)
def test_errors_of_brokers(answer: bytes, error: str) -> None:
    assert broker_error(answer) == error


def test_a_deeply_nested_error_is_shown_as_it_is() -> None:
    deep = b'{"status": ' + b"[" * 200_000
    assert broker_error(deep) == deep.decode()
