"""Lines of a client with OAUTHBEARER on cluster A, and the files that they name."""

from __future__ import annotations

import json
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from mm2.config.load import Loaded
from mm2.core.oauth.tokens import encode
from mm2.core.settings.oauth import OAuthLogin, TokenEndpoint
from tests.unit.config.files import loaded

OAUTH = "org.apache.kafka.common.security.oauthbearer"
URL = "https://login.example.com/token"
RSA = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
EC = ec.generate_private_key(ec.SECP256R1())
OTHER_CURVE = ec.generate_private_key(ec.SECP384R1())

Key = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey


def jwt(**claims: object) -> str:
    return f"{encode({'alg': 'RS256'})}.{encode({'sub': 'mm2', 'exp': 4_000_000_000, **claims})}.c2ln"


def pem(key: Key, password: str | None = None) -> str:
    encryption = NoEncryption() if password is None else BestAvailableEncryption(password.encode())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption).decode()


def read(
    directory: Path, options: str = "", handler: str | None = f"{OAUTH}.OAuthBearerLoginCallbackHandler", **keys: str
) -> Loaded:
    """Load a file; ``keys`` are those after ``sasl.oauthbearer.``, with underscores for dots."""
    lines = [
        "security.protocol = SASL_SSL",
        "sasl.mechanism = OAUTHBEARER",
        f"sasl.jaas.config = {OAUTH}.OAuthBearerLoginModule required {options};",
        *([] if handler is None else [f"sasl.login.callback.handler.class = {handler}"]),
        *(f"sasl.oauthbearer.{name.replace('_', '.')} = {value}" for name, value in keys.items()),
    ]
    return loaded(directory, "".join(f"A.{line}\n" for line in lines))


def login(result: Loaded) -> OAuthLogin:
    assert result.settings is not None, "\n".join(map(str, result.problems))
    found = result.settings.flows[0].clients.source_consumer.sasl
    assert isinstance(found, OAuthLogin)
    return found


def endpoint(result: Loaded) -> TokenEndpoint:
    source = login(result).source
    assert isinstance(source, TokenEndpoint)
    return source


def problem(result: Loaded) -> tuple[str, str, str]:
    """The key, the rule and the fix of the only problem."""
    (found,) = result.problems
    return found.key or "", found.rule, found.fix


def file(directory: Path, content: str, name: str = "file") -> str:
    path = directory / name
    path.write_text(content)
    return str(path)


def template(**sections: object) -> str:
    return json.dumps(sections)
