"""The source of tokens for the settings of a login."""

from __future__ import annotations

from mm2.core.settings.oauth import OAuthLogin, TokenEndpoint, TokenFile, TokenPlugin, UnsecuredToken
from mm2.kafka.sasl.token_endpoint import EndpointTokens
from mm2.kafka.sasl.token_plugin import PluginTokens
from mm2.kafka.sasl.token_source import FileTokens, TokenSource, UnsecuredTokens


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
