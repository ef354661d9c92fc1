"""An OAuth identity provider for tests: a token endpoint and its public keys, over http or https.

It signs tokens with RS256 and grants client_credentials, with a secret or an assertion, and jwt-bearer. It can be told
to fail, to hang, to issue tokens for another audience, or to sign with new keys.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, unquote_plus

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.lab.ports import HOST

AUDIENCE = "kafka"
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
CLIENT_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey


class _Denied(Exception):
    """An error of RFC 6749 section 5.2."""

    def __init__(self, status: int, error: str, description: str) -> None:
        super().__init__(error)
        self.status, self.body = status, {"error": error, "error_description": description}


@dataclass(slots=True)
class TokenRequest:
    """One request: the form, and the client that the Authorization header names."""

    form: Mapping[str, str]
    client: str | None
    at: float = field(default_factory=time.monotonic)


class IdentityProvider:
    """A context manager. ``clients``: secrets by ID. ``signers``: public keys of assertions by issuer. ``lifetime`` of
    tokens in seconds. The attributes can be changed while it runs."""

    def __init__(
        self,
        clients: Mapping[str, str] | None = None,
        *,
        signers: Mapping[str, rsa.RSAPublicKey | ec.EllipticCurvePublicKey] | None = None,
        lifetime: float = 3_600,
        certificate: Path | None = None,
    ) -> None:
        self.clients = dict(clients or {})
        self.signers = dict(signers or {})
        self.lifetime = lifetime
        self.audience = AUDIENCE
        self.status: int | None = None  # answer all requests with this error
        self.hang = threading.Event()  # while it is set, requests are not answered
        self.requests: list[TokenRequest] = []
        self._certificate = certificate
        self._keys: dict[str, rsa.RSAPrivateKey] = {}
        self.change_keys()
        self._closing = threading.Event()
        self._server: ThreadingHTTPServer | None = None
        self._thread: threading.Thread | None = None
        self._port = 0

    @property
    def url(self) -> str:
        scheme = "http" if self._certificate is None else "https"
        return f"{scheme}://{HOST}:{self._port}"

    @property
    def token_url(self) -> str:
        return f"{self.url}/token"

    def change_keys(self) -> None:
        """Sign with a new key from now on, and forget the earlier ones."""
        self._keys = {f"key-{time.monotonic_ns()}": rsa.generate_private_key(public_exponent=65_537, key_size=2_048)}

    def token(self, subject: str, *, lifetime: float | None = None, **claims: Any) -> str:
        """Return a signed token of ``subject``."""
        ((name, key),) = self._keys.items()
        now = int(time.time())  # whole seconds, as those of all providers
        payload = {
            "iss": "mm2 lab",
            "aud": self.audience,
            "sub": subject,
            "scope": "kafka",
            "iat": now,
            "exp": now + int(self.lifetime if lifetime is None else lifetime),
            **claims,
        }
        return sign_jwt({"alg": "RS256", "kid": name, "typ": "JWT"}, payload, key)

    def start(self) -> Self:
        """Listen, on the same port as before, if there was one."""
        handler = type("Handler", (_Handler,), {"provider": self})
        self._closing.clear()
        self._server = ThreadingHTTPServer((HOST, self._port), handler)
        self._port = self._server.server_port
        if self._certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self._certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()
        return self

    def stop(self) -> None:
        """Close the port; connections are refused until `start`."""
        if self._server is not None and self._thread is not None:
            self._closing.set()
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()
            self._server = None

    def jwks(self) -> dict[str, Any]:
        """The public keys, as brokers read them."""
        numbers = {name: key.public_key().public_numbers() for name, key in self._keys.items()}
        return {
            "keys": [
                {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": name, "n": _number(one.n), "e": _number(one.e)}
                for name, one in numbers.items()
            ]
        }

    def answer(self, headers: Mapping[str, str], body: str) -> tuple[int, dict[str, Any]]:
        """Answer a request for a token."""
        form = dict(parse_qsl(body))
        client, secret = _basic(headers.get("Authorization", ""))
        self.requests.append(TokenRequest(form, client))
        while self.hang.is_set() and not self._closing.is_set():
            time.sleep(0.02)
        if self.status is not None:
            return self.status, {"error": "server_error", "error_description": "as the test wants"}
        try:
            subject = self._subject(form, client, secret)
        except _Denied as denied:
            return denied.status, denied.body
        token = self.token(subject)
        return 200, {"access_token": token, "token_type": "Bearer", "expires_in": self.lifetime}

    def _subject(self, form: Mapping[str, str], client: str | None, secret: str) -> str:
        match form.get("grant_type"):
            case "client_credentials" if "client_assertion" in form:
                if form["client_assertion_type"] != CLIENT_ASSERTION:
                    raise _Denied(400, "invalid_request", "unknown type of assertion")
                return self._asserted(form["client_assertion"])
            case "client_credentials":
                if client is None or self.clients.get(client) not in (secret, unquote_plus(secret)):
                    raise _Denied(401, "invalid_client", "Invalid client or Invalid client credentials")
                return client
            case grant if grant == JWT_BEARER:
                return self._asserted(form["assertion"])
        raise _Denied(400, "unsupported_grant_type", "no such grant")

    def _asserted(self, assertion: str) -> str:
        header, payload = (json.loads(_decoded(section)) for section in assertion.split(".")[:2])
        key = self.signers.get(payload["iss"])
        if key is None or not _is_signed(assertion, header["alg"], key):
            raise _Denied(401, "invalid_client", "the signature of the assertion is wrong")
        if payload["aud"] != self.token_url or not payload.get("nbf", 0) <= time.time() < payload["exp"]:
            raise _Denied(400, "invalid_grant", "audience or time of the assertion is wrong")
        return str(payload["sub"])

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class _Handler(BaseHTTPRequestHandler):
    provider: IdentityProvider

    def do_GET(self) -> None:
        self._send(200, self.provider.jwks())

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        self._send(*self.provider.answer(dict(self.headers), body))

    def _send(self, status: int, body: Mapping[str, Any]) -> None:
        content = json.dumps(body).encode()
        try:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
        except OSError:
            pass  # the client has given up

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


def sign_jwt(header: Mapping[str, Any], payload: Mapping[str, Any], key: rsa.RSAPrivateKey) -> str:
    """Return a JWT with algorithm RS256."""
    content = f"{_encoded(json.dumps(header).encode())}.{_encoded(json.dumps(payload).encode())}"
    return f"{content}.{_encoded(key.sign(content.encode(), padding.PKCS1v15(), SHA256()))}"


def pem_of(key: PrivateKey) -> str:
    """Return a private key as PEM."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def _is_signed(jwt: str, algorithm: str, key: rsa.RSAPublicKey | ec.EllipticCurvePublicKey) -> bool:
    content, _, signature = jwt.rpartition(".")
    raw = _decoded(signature)
    try:
        if isinstance(key, rsa.RSAPublicKey):
            key.verify(raw, content.encode(), padding.PKCS1v15(), SHA256())
            return algorithm == "RS256"
        both = encode_dss_signature(int.from_bytes(raw[:32]), int.from_bytes(raw[32:]))
        key.verify(both, content.encode(), ec.ECDSA(SHA256()))
    except InvalidSignature:
        return False
    return algorithm == "ES256"


def _basic(header: str) -> tuple[str | None, str]:
    if not header.startswith("Basic "):
        return None, ""
    client, _, secret = base64.b64decode(header.removeprefix("Basic ")).decode().partition(":")
    return client, secret


def _encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _decoded(section: str) -> bytes:
    return base64.urlsafe_b64decode(section + "=" * (-len(section) % 4))


def _number(value: int) -> str:
    return _encoded(value.to_bytes((value.bit_length() + 7) // 8))
