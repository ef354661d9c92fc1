from __future__ import annotations

import base64
import json
from threading import Thread
from urllib.parse import quote

import pytest

from mm2.core.masking import HIDDEN, MOST_RENEWED, Mask, Renewed
from mm2.core.printable import one_line


@pytest.mark.parametrize("secret", ["sesame", 'quo"ted \\ ü', "first\nsecond", "a&b c%d"])
def test_every_spelling_of_a_secret_is_masked(secret: str) -> None:
    mask = Mask()
    mask.hide(secret)
    spellings = (
        secret,
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False),
        repr(secret),
        quote(secret, safe=""),
    )
    for spelling in spellings:
        assert mask(f"before {spelling} after").replace("'", "").replace('"', "") == f"before {HIDDEN} after"


@pytest.mark.parametrize(
    "secret", ["sesame\\open", 'ses"ame', "it's sesame", "sesa\tme", "ses\u200eame", "open\n sesame"]
)
def test_a_secret_in_a_text_that_is_quoted_once_more_is_masked(secret: str) -> None:
    mask = Mask()
    mask.hide(secret)
    quoted = (
        repr({"password": f'"{secret}"'}),
        json.dumps(repr(["first", secret])),
        repr(json.dumps({"password": secret})),
        json.dumps(json.dumps(secret, ensure_ascii=False)),
        one_line(f"wrong password {secret}"),
        " ".join(f"wrong password {secret}".split()),
    )
    for text in quoted:
        assert HIDDEN in mask(text), text


def test_bytes_are_masked_in_every_encoding() -> None:
    secret = bytes(range(0, 256, 8))
    mask = Mask()
    mask.hide(secret)
    encoded = (base64.b64encode(secret), base64.urlsafe_b64encode(secret).rstrip(b"="), secret.hex().encode())
    for text in (*(one.decode() for one in encoded), repr(secret)):
        assert mask(text).strip("b'=") == HIDDEN


def test_parts_of_ordinary_words_are_not_masked() -> None:
    mask = Mask()
    mask.hide("abc", "true", "False", "", None)
    assert mask("abc is true, not False") == "abc is true, not False"


def test_a_secret_that_contains_another_is_masked_as_a_whole() -> None:
    mask = Mask()
    mask.hide("sesame", "open-sesame-now")
    assert mask("open-sesame-now, sesame") == f"{HIDDEN}, {HIDDEN}"


def test_of_renewed_secrets_the_newest_of_each_kind_are_remembered() -> None:
    mask = Mask()
    mask.hide("password")
    mask.hide("session-key", kind=Renewed.SESSION_KEY)
    for number in range(MOST_RENEWED + 1):
        mask.hide(f"token-{number:05}", kind=Renewed.LANE_TOKEN)
    assert mask("token-00000 token-00001") == f"token-00000 {HIDDEN}"
    assert mask(f"token-{MOST_RENEWED:05} password session-key") == f"{HIDDEN} {HIDDEN} {HIDDEN}"


def test_threads_lose_no_secret() -> None:
    mask = Mask()

    def tell(thread: int) -> None:
        for number in range(100):
            mask.hide(f"secret-{thread}-{number:03}")

    threads = [Thread(target=tell, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    told = [f"secret-{thread}-{number:03}" for thread in range(4) for number in range(100)]
    assert mask(" ".join(told)) == " ".join([HIDDEN] * len(told))
