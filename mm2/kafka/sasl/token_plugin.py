"""Tokens of a user's class (mm2.core.plugins.LoginCallbackHandler)."""

from __future__ import annotations

from importlib import import_module
from typing import Any, ClassVar

from mm2.core.oauth.tokens import BearerToken
from mm2.core.plugins import OAuthBearerToken, described
from mm2.core.settings.oauth import TokenPlugin
from mm2.kafka.sasl.login import LoginFailed


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
