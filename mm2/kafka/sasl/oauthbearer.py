"""OAUTHBEARER: the token of one client, shared by its connections in this process and when it is renewed (KIP-255,
RFC 7628; ExpiringCredentialRefreshingLogin)."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from typing import Any, ClassVar

from mm2.core.masking import Renewed, hide
from mm2.core.oauth.messages import ERROR_RECEIVED, initial_response
from mm2.core.oauth.tokens import BearerToken
from mm2.core.plugins import OAuthBearerToken, described
from mm2.core.settings.oauth import OAuthLogin, RefreshSettings, TokenEndpoint, TokenFile, TokenPlugin, UnsecuredToken
from mm2.kafka.backoff import Backoff
from mm2.kafka.sasl.login import CredentialsRejected, Exchange, LoginFailed
from mm2.kafka.sasl.token_endpoint import EndpointTokens
from mm2.kafka.sasl.token_source import FileTokens, TokenRefused, TokenSource, UnsecuredTokens


def refresh_time(
    settings: RefreshSettings, *, now: float, issued_at: float | None, expires_at: float, share: float
) -> float:
    """Return the time at which a token that was obtained ``now`` is renewed.

    Times are seconds since the epoch. ``share``, from 0 to 1, is chosen at random: it selects a time within the
    jitter. The minimum period and the buffer before the expiry apply only if there is time for both.
    """
    factor = settings.window_factor + settings.window_jitter * share
    if now + settings.min_period_seconds + settings.buffer_seconds > expires_at:
        return now + max(0.0, expires_at - now) * factor
    start = now if issued_at is None else issued_at
    proposed = start + (expires_at - start) * factor
    latest = expires_at - settings.buffer_seconds
    if proposed > latest:
        return latest
    return max(proposed, now + settings.min_period_seconds)


log = logging.getLogger(__name__)


class PluginTokens:
    """Loads the class at the first token, so that a process that cannot import it says so like any other failure."""

    key: ClassVar[str] = "sasl.login.callback.handler.class"
    if_expired: ClassVar[str] = "check the class and the clocks"

    def __init__(self, settings: TokenPlugin) -> None:
        self._settings = settings
        self._handler: Any = None

    def token(self) -> BearerToken:
        name = self._settings.import_string
        try:
            if self._handler is None:
                self._handler = self._create()
            token = self._handler.token()
        except (Exception, SystemExit) as error:
            raise LoginFailed(f"{name} raised {described(error)}", self.key) from error
        if not isinstance(token, OAuthBearerToken):
            raise LoginFailed(
                f"{name}: token() returned {type(token).__name__}, not mm2.core.plugins.OAuthBearerToken", self.key
            )
        return BearerToken(
            value=token.value,
            expires_at=token.expires_at_ms / 1000,
            principal=token.principal_name,
            extensions=tuple(sorted(token.extensions.items())),
        )

    def _create(self) -> Any:
        module, _, attribute = self._settings.import_string.partition(":")
        handler = getattr(import_module(module), attribute)()
        if hasattr(handler, "configure"):
            handler.configure(dict(self._settings.properties), dict(self._settings.options))
        return handler


def source_of(settings: OAuthLogin) -> TokenSource:
    """Return the source of the tokens of ``settings``."""
    match settings.source:
        case TokenEndpoint() as endpoint:
            return EndpointTokens(endpoint, settings.sub_claim)
        case TokenFile() as file:
            return FileTokens(file, settings.sub_claim)
        case TokenPlugin() as plugin:
            return PluginTokens(plugin)
        case UnsecuredToken() as unsecured:
            return UnsecuredTokens(unsecured)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenWaits:
    """How long connections wait for a token, and when a warning is repeated, in seconds."""

    with_token_s: float = 2.0
    """Time that a connection waits for a new token while it has a valid one. Most endpoints answer in less, so that the
    session begins with the new token."""
    without_token_s: float = 5.0
    """The same without a valid token. Then the failure is reported, and the request continues."""
    log_every_s: float = 60.0
    """Interval of a repeated warning: a renewal that fails is harmless until the token expires."""


_WAITS = TokenWaits()


class OAuthBearerLogin:
    """Keeps a token and renews it.

    A. There is one request for a token at a time. After a failure there is none before the backoff is over, however
       many connections need a token; they share the failure.
    B. A token is used until it expires. A renewal that fails or hangs delays connections by `TokenWaits.with_token_s`
       at most.
    C. A token that a broker rejects, with a challenge or without one, is replaced before the next authentication, with
       backoff: the identity provider may have changed its keys. A connection that ends instead rejects nothing.
    """

    def __init__(
        self,
        settings: OAuthLogin,
        source: TokenSource | None = None,
        *,
        waits: TokenWaits = _WAITS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """``clock``: the system's clock, with which the times of tokens are compared, in seconds."""
        self._settings = settings
        self._source = source or source_of(settings)
        self._waits = waits
        self._clock = clock
        self._lock = threading.Lock()
        self._token: BearerToken | None = None
        self._renew_at = 0.0  # on the system's clock, as the times of tokens
        self._running: threading.Event | None = None  # set when the current request ends
        self._began = 0.0  # when the current request began, on the monotonic clock
        self._failure: LoginFailed | None = None  # of the last request that ended
        self._failures = self._backoff()
        self._rejected: BearerToken | None = None  # the last token that a broker rejected
        self._rejections = self._backoff()
        self._not_before = 0.0  # when a request may follow one that failed, on the monotonic clock
        self._replace_not_before = 0.0  # the same for a token that was rejected, as long as it is valid
        self._logged = ("", 0.0)

    @property
    def is_due(self) -> bool:
        with self._lock:
            return self._valid is None or (self._wants_renewal and (self._may_begin or self._patience > 0))

    def renew(self) -> None:
        with self._lock:
            if self._may_begin and (self._valid is None or self._wants_renewal):
                self._running, self._began = threading.Event(), time.monotonic()
                threading.Thread(target=self._request, args=(self._running,), name="mm2-oauth", daemon=True).start()
            running, patience = self._running, self._patience
        if running is not None:
            running.wait(patience)
        with self._lock:
            if self._valid is None:
                raise self._reason(running)

    def exchange(self, host: str) -> Exchange:
        with self._lock:
            token = self._valid
        if token is None:
            raise LoginFailed("the token has expired", self._source.key)
        try:
            response = initial_response(token.value, (*self._settings.extensions, *token.extensions))
        except ValueError as error:
            raise LoginFailed(str(error), self._source.key) from error
        try:
            challenge = yield response
        except CredentialsRejected:  # without a challenge, by a validator that fails itself
            self._reject(token)
            raise
        if challenge:
            self._reject(token)
            yield ERROR_RECEIVED
        else:
            self._rejections.reset()

    @property
    def _valid(self) -> BearerToken | None:
        return self._token if self._token is not None and self._clock() < self._token.expires_at else None

    @property
    def _wants_renewal(self) -> bool:
        return self._clock() >= self._renew_at

    @property
    def _patience(self) -> float:
        """How long to wait for the current request, in seconds."""
        if self._running is None:
            return 0.0
        longest = self._waits.without_token_s if self._valid is None else self._waits.with_token_s
        return max(0.0, self._began + longest - time.monotonic())

    @property
    def _may_begin(self) -> bool:
        earliest = self._not_before if self._valid is None else max(self._not_before, self._replace_not_before)
        return self._running is None and time.monotonic() >= earliest

    def _reason(self, awaited: threading.Event | None) -> LoginFailed:
        """Return why there is no valid token, after a wait for the request ``awaited`` if there was one."""
        if awaited is not None and awaited is self._running:
            return LoginFailed(f"no answer within {self._waits.without_token_s:g} s", self._source.key)
        if self._token is None and self._failure is not None:
            return copy(self._failure)  # several threads raise it
        reason = "the token has expired"
        if self._not_before > time.monotonic():  # without the seconds, which would make each message a new one
            reason += "; the next request follows after a pause"
        if self._failure is None:
            return LoginFailed(reason, self._source.key)
        return LoginFailed(f"{reason} (the last one failed: {self._failure})", self._failure.key)

    def _backoff(self) -> Backoff:
        return Backoff(self._settings.refresh.retry_backoff_ms, self._settings.refresh.retry_backoff_max_ms)

    def _request(self, done: threading.Event) -> None:
        """Request a token, in a thread of its own."""
        try:
            token = self._source.token()
            self._check_expiry(token)
        except LoginFailed as error:
            self._failed(error)
        except Exception as error:
            log.exception("request for a token failed")
            self._failed(LoginFailed(f"request for a token failed: {type(error).__name__}", self._source.key))
        else:
            self._succeeded(token)
        finally:
            with self._lock:
                self._running = None
            done.set()

    def _check_expiry(self, token: BearerToken) -> None:
        if token.expires_at <= self._clock():
            end = datetime.fromtimestamp(token.expires_at, UTC).isoformat(sep=" ", timespec="seconds")
            raise LoginFailed(f"the token expired at {end}: {self._source.if_expired}", self._source.key)

    def _succeeded(self, token: BearerToken) -> None:
        hide(token.value, kind=Renewed.OAUTH_TOKEN)
        now = self._clock()
        share = random.random()  # noqa: S311 - spreads load, hides nothing
        refresh = self._settings.refresh
        with self._lock:
            self._renew_at = refresh_time(
                refresh, now=now, issued_at=token.issued_at, expires_at=token.expires_at, share=share
            )
            self._token, self._failure = token, None
            self._failures.reset()
        log.debug(
            "obtained a token of %s, valid for %.0f s; renewal in %.0f s",
            token.principal or "unknown principal",
            token.expires_at - now,
            self._renew_at - now,
        )

    def _failed(self, failure: LoginFailed) -> None:
        with self._lock:
            delay = self._failures.next()
            if isinstance(failure, TokenRefused):
                delay = max(delay, self._settings.refresh.retry_backoff_max_ms / 1000)
            self._not_before = time.monotonic() + delay
            self._failure = failure
            token = self._valid
        if token is not None:
            self._warn(failure, token.expires_at - self._clock(), delay)

    def _warn(self, failure: LoginFailed, remaining: float, delay: float) -> None:
        reason, now = str(failure), time.monotonic()
        if self._logged[0] == reason and now < self._logged[1] + self._waits.log_every_s:
            return
        self._logged = (reason, now)
        log.warning(
            "token not renewed: %s; the current one is valid for %.0f s; retrying in %.1f s (check %s)",
            reason,
            remaining,
            delay,
            failure.key,
        )

    @property
    def renewal_failure(self) -> LoginFailed | None:
        """Why the newest request for a token has failed; None: it has not."""
        return self._failure

    def _reject(self, token: BearerToken) -> None:
        """Replace a token that a broker has rejected. Further rejections of the same token do not postpone that."""
        with self._lock:
            if token is self._token and token is not self._rejected:
                self._rejected, self._renew_at = token, 0.0
                self._replace_not_before = time.monotonic() + self._rejections.next()
