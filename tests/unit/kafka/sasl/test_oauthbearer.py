"""Renewal of tokens: one request at a time, and use of a valid token whatever happens to the endpoint."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from itertools import chain, repeat

import pytest

from mm2.core.oauth.tokens import BearerToken
from mm2.core.settings.oauth import OAuthLogin, RefreshSettings, UnsecuredToken
from mm2.kafka.sasl.login import CredentialsRejected, LoginFailed
from mm2.kafka.sasl.oauthbearer import OAuthBearerLogin, TokenWaits
from mm2.kafka.sasl.token_source import TokenRefused
from tests.lab.waiting import wait_until
from tests.unit.kafka.sasl.renewals import renew_in_threads

SETTINGS = OAuthLogin(
    source=UnsecuredToken(claims="{}"),
    extensions=(("logicalCluster", "lkc"),),
    refresh=RefreshSettings(retry_backoff_ms=20, retry_backoff_max_ms=400),
)
KEY = "sasl.oauthbearer.token.endpoint.url"


class Source:
    """An identity provider that does what a test says."""

    key = KEY
    if_expired = "check the clocks"

    def __init__(self) -> None:
        self.lifetime = 3_600.0
        self.failure: Exception | None = None
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.requests = 0
        self.extensions: tuple[tuple[str, str], ...] = ()

    def token(self) -> BearerToken:
        self.requests += 1
        number = self.requests
        self.may_answer.wait(10)
        if self.failure is not None:
            raise self.failure
        return BearerToken(value=f"token-{number}", expires_at=time.time() + self.lifetime, extensions=self.extensions)


@pytest.fixture
def source() -> Iterator[Source]:
    source = Source()
    yield source
    source.may_answer.set()


@pytest.fixture
def login(source: Source) -> OAuthBearerLogin:
    return OAuthBearerLogin(SETTINGS, source)


def sent(login: OAuthBearerLogin) -> str:
    """The first message of an authentication."""
    return next(login.exchange("broker")).decode()


def expire(login: OAuthBearerLogin) -> None:
    login._renew_at = 0.0


def ends(login: OAuthBearerLogin) -> None:
    """Wait for the request that runs."""
    wait_until(lambda: login._running is None, 10, "the request for a token has ended")


def test_a_token_is_kept(login: OAuthBearerLogin, source: Source) -> None:
    assert login.is_due
    login.renew()
    assert not login.is_due
    login.renew()
    assert source.requests == 1
    assert sent(login) == "n,,\x01auth=Bearer token-1\x01logicalCluster=lkc\x01\x01"


def test_extensions_of_the_token(login: OAuthBearerLogin, source: Source) -> None:
    source.extensions = (("pool", "p"),)
    login.renew()
    assert sent(login).endswith("\x01logicalCluster=lkc\x01pool=p\x01\x01")


def test_many_connections_share_a_request(login: OAuthBearerLogin, source: Source) -> None:
    renew_in_threads(login.renew, source, threads=20)
    assert source.requests == 1


def test_failures_have_a_backoff_that_all_share(login: OAuthBearerLogin, source: Source) -> None:
    source.failure = LoginFailed("refused", KEY)
    began = time.monotonic()
    while time.monotonic() < began + 0.5:
        assert login.is_due
        with pytest.raises(LoginFailed, match="refused") as raised:
            login.renew()
        assert raised.value.key == KEY
    assert 3 <= source.requests <= 8  # 20, 40, 80, 160 and 320 ms


def test_a_rejected_client_waits_longest_at_once(login: OAuthBearerLogin, source: Source) -> None:
    source.failure = TokenRefused("invalid_client", "sasl.oauthbearer.client.credentials.*")
    began = time.monotonic()
    while time.monotonic() < began + 0.3:
        with pytest.raises(LoginFailed, match="invalid_client"):
            login.renew()
    assert source.requests == 1


def test_a_valid_token_is_used_while_the_endpoint_is_down(
    login: OAuthBearerLogin, source: Source, caplog: pytest.LogCaptureFixture
) -> None:
    login.renew()
    source.failure = LoginFailed("refused", KEY)
    with caplog.at_level(logging.WARNING, "mm2.oauth"):
        for _ in range(3):
            expire(login)
            login.renew()
            ends(login)
            time.sleep(0.1)
    assert source.requests == 4
    assert "token-1" in sent(login)
    (record,) = caplog.records  # the same reason is not repeated
    assert "token not renewed: refused; the current one is valid for 3" in record.getMessage()
    source.failure = LoginFailed("no answer", KEY)
    expire(login)
    login._not_before = 0.0
    login.renew()
    ends(login)
    assert "no answer" in caplog.records[-1].getMessage()
    source.failure = None
    login._not_before = 0.0
    login.renew()
    assert "token-6" in sent(login)


def test_an_endpoint_that_hangs_delays_for_a_moment(source: Source) -> None:
    login = OAuthBearerLogin(SETTINGS, source, waits=TokenWaits(with_token_s=0.2))
    login.renew()
    expire(login)
    source.may_answer.clear()
    began = time.monotonic()
    login.renew()
    assert 0.15 < time.monotonic() - began < 2
    assert not login.is_due, "nobody waits for it again"
    login.renew()
    assert "token-1" in sent(login)
    source.may_answer.set()
    ends(login)
    assert "token-2" in sent(login)


def test_an_endpoint_that_hangs_without_a_token(source: Source) -> None:
    login = OAuthBearerLogin(SETTINGS, source, waits=TokenWaits(without_token_s=0.1))
    source.may_answer.clear()
    with pytest.raises(LoginFailed, match="no answer within"):
        login.renew()
    assert login.is_due
    source.may_answer.set()
    ends(login)
    login.renew()
    assert source.requests == 1


def test_a_token_that_has_expired(login: OAuthBearerLogin, source: Source) -> None:
    source.lifetime = -10
    with pytest.raises(
        LoginFailed, match=r"the token expired at 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d\+00:00: check the clocks"
    ):
        login.renew()
    with pytest.raises(LoginFailed, match="the token has expired"):
        sent(login)


def test_an_unexpected_error(login: OAuthBearerLogin, source: Source) -> None:
    source.failure = ZeroDivisionError("secret")
    with pytest.raises(LoginFailed, match=r"request for a token failed: ZeroDivisionError$"):
        login.renew()


def test_a_rejected_token_is_replaced(login: OAuthBearerLogin, source: Source) -> None:
    login.renew()
    exchange = login.exchange("broker")
    next(exchange)
    assert exchange.send(b'{"status":"invalid_token"}') == b"\x01"
    assert not login.is_due, "there is a backoff"
    wait_until(lambda: login.is_due, 5, "it is replaced")
    login.renew()
    exchange = login.exchange("broker")
    assert b"token-2" in next(exchange)
    with pytest.raises(StopIteration):
        exchange.send(b"")


def test_a_token_that_is_rejected_without_a_challenge_is_replaced(login: OAuthBearerLogin, source: Source) -> None:
    login.renew()
    exchange = login.exchange("broker")
    next(exchange)
    with pytest.raises(CredentialsRejected):
        exchange.throw(CredentialsRejected())
    wait_until(lambda: login.is_due, 5, "it is replaced")
    login.renew()
    assert "token-2" in sent(login)


def test_rejections_of_the_same_token_count_once(login: OAuthBearerLogin, source: Source) -> None:
    """Connections that keep trying do not postpone its replacement, and neither does the error after the challenge."""
    login.renew()
    rejected, another = login.exchange("broker"), login.exchange("broker")
    next(rejected)
    next(another)
    rejected.send(b'{"status":"invalid_token"}')
    earliest = login._replace_not_before
    for exchange in (rejected, another):
        with pytest.raises(CredentialsRejected):
            exchange.throw(CredentialsRejected())
    assert login._replace_not_before == earliest


def test_a_connection_that_ends_during_an_authentication_rejects_no_token(login: OAuthBearerLogin) -> None:
    login.renew()
    exchange = login.exchange("broker")
    next(exchange)
    exchange.close()
    assert not login._wants_renewal


def test_a_token_that_cannot_be_sent(login: OAuthBearerLogin, source: Source) -> None:
    source.extensions = (("auth", "x"),)
    login.renew()
    with pytest.raises(LoginFailed, match="extension"):
        sent(login)


def test_a_token_that_expires_during_the_backoff_of_its_renewal(login: OAuthBearerLogin, source: Source) -> None:
    source.lifetime = 0.3
    login.renew()
    expire(login)
    source.failure = TokenRefused("invalid_client", "sasl.oauthbearer.client.credentials.*")
    login.renew()
    ends(login)
    login._not_before = time.monotonic() + 60
    wait_until(lambda: login._valid is None, 5, "the token has expired")
    with pytest.raises(
        LoginFailed,
        match=r"^the token has expired; the next request follows after a pause \(the last one .*: invalid_client\)$",
    ) as raised:
        login.renew()
    assert raised.value.key == "sasl.oauthbearer.client.credentials.*"
    assert source.requests == 2


def test_a_rejected_token_that_has_expired_is_replaced_at_once(login: OAuthBearerLogin, source: Source) -> None:
    source.lifetime = 0.3
    login.renew()
    exchange = login.exchange("broker")
    next(exchange)
    exchange.send(b'{"status":"invalid_token"}')
    login._replace_not_before = time.monotonic() + 60
    assert not login.is_due
    wait_until(lambda: login._valid is None, 5, "the token has expired")
    login.renew()
    assert "token-2" in sent(login)


def test_a_token_that_expires_when_it_arrives(source: Source) -> None:
    """It is valid when it is checked, and no longer when it is to be used."""
    now = time.time()
    times = chain([now], repeat(now + 60))
    login = OAuthBearerLogin(SETTINGS, source, clock=lambda: next(times))
    source.lifetime = 30.0
    with pytest.raises(LoginFailed, match=r"^the token has expired$"):
        login.renew()


def test_an_old_failure_is_not_that_of_a_request_that_hangs(source: Source) -> None:
    login = OAuthBearerLogin(SETTINGS, source, waits=TokenWaits(without_token_s=0.1))
    source.failure = LoginFailed("refused", KEY)
    with pytest.raises(LoginFailed, match="refused"):
        login.renew()
    login._not_before = 0.0
    source.may_answer.clear()
    with pytest.raises(LoginFailed, match="no answer within"):
        login.renew()
