from __future__ import annotations

import hashlib

import pytest

from mm2.core.access.callers import NamedToken, Role, find_token, read_tokens


def digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


ALICE, BOB = digest("token of alice"), digest("token of bob")


def test_lines_of_a_file() -> None:
    text = (
        f"# who may do what\n\n alice\toperator  {ALICE.upper()} \nbob viewer {BOB}\r\nalice operator {digest('2')}\n"
    )
    tokens, errors = read_tokens(text)
    assert errors == ()
    assert tokens == (
        NamedToken(name="alice", role=Role.OPERATOR, sha256=ALICE),
        NamedToken(name="bob", role=Role.VIEWER, sha256=BOB),
        NamedToken(name="alice", role=Role.OPERATOR, sha256=digest("2")),  # while one replaces the other
    )


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        (f"carol {BOB}", "has 2 words instead of NAME ROLE SHA256"),
        (f"carol viewer {BOB}  -", "has 4 words instead of NAME ROLE SHA256"),
        (f"-carol viewer {BOB}", "the name must be 1 to 100 letters"),
        (f"{'c' * 101} viewer {BOB}", "the name must be 1 to 100 letters"),
        (f"admin operator {BOB}", "admin is a name that the program uses itself"),
        (f"unknown operator {BOB}", "unknown is a name that the program uses itself"),
        (f"carol owner {BOB}", "the role of carol must be viewer or operator"),
        (f"carol viewer {BOB[:-1]}", "the digest of carol must be 64 hex digits"),
        (f"carol viewer {digest('')}", "the digest of carol is that of an empty token"),
        (f"carol viewer {digest(chr(10))}", "the digest of carol is that of an empty token"),
        (f"carol viewer {ALICE}", "carol has the same token as an earlier line for alice"),
        (f"alice viewer {BOB}", "alice is operator in an earlier line"),
    ],
)
def test_wrong_lines(line: str, rule: str) -> None:
    tokens, (error,) = read_tokens(f"alice operator {ALICE}\n\n{line}\n")
    assert [one.name for one in tokens] == ["alice"]
    assert error.line == 3
    assert error.rule.startswith(rule)
    assert error.fix
    assert line.rsplit(maxsplit=1)[-1] not in f"{error}", "it can be a token instead of a digest"


def test_token_is_found_by_its_digest() -> None:
    tokens, _ = read_tokens(f"alice operator {ALICE}\nbob viewer {BOB}\n")
    found = find_token(b"token of bob", tokens)
    assert found is not None
    assert (found.name, found.role) == ("bob", Role.VIEWER)
    assert find_token(b"token of carol", tokens) is None
    assert find_token(BOB.encode(), tokens) is None
    assert find_token(b"", ()) is None
    assert find_token(b"open-sesame-open", [NamedToken.admin("open-sesame-open")]) == NamedToken.admin(
        "open-sesame-open"
    )
