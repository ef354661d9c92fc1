from __future__ import annotations

import traceback
from dataclasses import asdict

import pytest
from pydantic import TypeAdapter

from flows.messages import MessageInvalidError, read_message
from mm2.core.lanes.lease import LeaseEndpoint, LeaseGrant
from mm2.core.settings.sasl import PasswordLogin, SaslMechanism

PLACE = TypeAdapter(LeaseEndpoint)


def test_a_valid_message() -> None:
    place = LeaseEndpoint(url="http://127.0.0.1:1")
    assert read_message(PLACE, PLACE.dump_json(place), "place") == place


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (b'{"url": 7, "key_pem": ["open-sesame"]}', r"url: string_type; key_pem: string_type"),
        (b'{"key_pem": "open-sesame", ', "text: json_invalid"),
        (b"open-sesame", "text: json_invalid"),
    ],
)
def test_an_invalid_message_is_not_quoted(content: bytes, place: str) -> None:
    with pytest.raises(MessageInvalidError, match=place) as caught:
        read_message(PLACE, content, "place")
    assert "open-sesame" not in "".join(traceback.format_exception(caught.value))


def test_the_password_of_a_lease_is_not_quoted() -> None:
    login = PasswordLogin(mechanism=SaslMechanism.PLAIN, username="me", password="open-sesame")
    content = TypeAdapter(dict).dump_json({"session": 7, "renewal": {"seconds": "x", "orders": asdict(login)}})
    with pytest.raises(MessageInvalidError, match=r"an invalid lease \(session: string_type") as caught:
        read_message(TypeAdapter(LeaseGrant), content, "lease")
    assert "open-sesame" not in "".join(traceback.format_exception(caught.value))
