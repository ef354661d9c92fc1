"""sasl.oauthbearer.assertion.*: the JWT with which a client proves its identity (KIP-1139, KIP-1258)."""

from __future__ import annotations

import binascii
from base64 import b64decode
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_der_private_key,
    load_pem_private_key,
)

from mm2.config.grammar.problems import to_copy
from mm2.config.security.oauth.properties import OAuthProperties
from mm2.config.security.tls.formats.pem import normalized_pem
from mm2.core.oauth.assertion import read_template
from mm2.core.oauth.tokens import TokenInvalid, jwt_value
from mm2.core.settings.oauth import Assertion, AssertionFile, SignedAssertion

_PEM = "-----BEGIN "


class KeyProblem(Exception):
    """The text is not a key for the algorithm; with ``fix``. ``is_password``: a password is missing or wrong."""

    def __init__(self, rule: str, fix: str = "", *, is_password: bool = False) -> None:
        super().__init__(rule)
        self.fix = fix
        self.is_password = is_password


def read_private_key(text: str, password: str | None, algorithm: str) -> str:
    """Return the private key in ``text`` as PEM (PKCS 8), not encrypted.

    PEM, and like in Java the Base64 of PKCS 8 without the lines around it. ``algorithm``: RS256 or ES256, for which the
    key must be suitable. Raises KeyProblem.
    """
    secret = None if password is None else password.encode()
    try:
        pem = normalized_pem(text).encode()
        key = load_pem_private_key(pem, secret) if _PEM in text else load_der_private_key(_der(text), secret)
    except TypeError as error:  # a password that is missing, or not needed
        if secret is None:
            raise KeyProblem("contains an encrypted private key, and no password is set", is_password=True) from error
        raise KeyProblem(
            "contains a private key that is not encrypted, but a password is set",
            "remove sasl.oauthbearer.assertion.private.key.passphrase",
        ) from error
    except (ValueError, UnsupportedAlgorithm) as error:
        if secret is not None and "ENCRYPTED" in text:
            raise KeyProblem("contains a private key that its password does not decrypt", is_password=True) from error
        raise KeyProblem("contains no private key in PEM", _fix(algorithm)) from error
    if algorithm == "RS256" and not isinstance(key, RSAPrivateKey):
        raise KeyProblem("does not contain an RSA key, which RS256 requires", _fix(algorithm))
    if algorithm == "ES256" and not (isinstance(key, EllipticCurvePrivateKey) and isinstance(key.curve, SECP256R1)):
        raise KeyProblem("does not contain an EC key on curve P-256, which ES256 requires", _fix(algorithm))
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def _der(text: str) -> bytes:
    try:
        return b64decode("".join(text.split()), validate=True)
    except binascii.Error as error:
        raise ValueError("not Base64") from error


def _fix(algorithm: str) -> str:
    kind = "RSA -pkeyopt rsa_keygen_bits:2048" if algorithm == "RS256" else "EC -pkeyopt ec_paramgen_curve:P-256"
    return f"create a key, and register its public key with the identity provider:\n  openssl genpkey -algorithm {kind}"


_PREFIX = "sasl.oauthbearer.assertion."
FILE = f"{_PREFIX}file"
ISS = f"{_PREFIX}claim.iss"
KEY_FILE = f"{_PREFIX}private.key.file"
TEMPLATE = f"{_PREFIX}template.file"

_PASSPHRASE = f"{_PREFIX}private.key.passphrase"


def read_assertion(oauth: OAuthProperties) -> Assertion | None:
    """Return the assertion; None after an error. A file with an assertion takes precedence, as in Java."""
    keys = oauth.keys
    if keys.assertion_file:
        jwt = _assertion_file(oauth, keys.assertion_file)
        if jwt is None:
            return None
        file = oauth.sasl.reread_file(keys.assertion_file, jwt.encode())
        return AssertionFile(jwt=jwt) if file is None else AssertionFile(file=file)
    private_key, template = _private_key(oauth), _template(oauth)
    if private_key is None or (template is None and keys.assertion_template_file):
        return None
    claims = {
        "aud": keys.assertion_claim_aud,
        "iss": keys.assertion_claim_iss,
        "sub": keys.assertion_claim_sub,
    }
    return SignedAssertion(
        algorithm="ES256" if keys.assertion_algorithm == "ES256" else "RS256",
        private_key=private_key,
        claims=tuple((name, text) for name, text in claims.items() if text),
        template=template,
        exp_seconds=keys.assertion_claim_exp_seconds,
        nbf_seconds=keys.assertion_claim_nbf_seconds,
        jti=keys.assertion_claim_jti_include,
    )


def _assertion_file(oauth: OAuthProperties, path: str) -> str | None:
    content = oauth.read_file(FILE, Path(path), "a file with an assertion")
    if content is None:
        return None
    try:
        return jwt_value(content)
    except TokenInvalid as error:
        rule = f"the file contains no assertion: {error}"
        oauth.refuse_content(FILE, rule, "give the path of a file with a signed JWT")
        return None


def _private_key(oauth: OAuthProperties) -> str | None:
    path = oauth.keys.assertion_private_key_file
    if not path:
        oauth.refuse_mechanism(
            KEY_FILE, "add {key} = the path of a PEM file with the private key that signs assertions"
        )
        return None
    content = oauth.read_file(KEY_FILE, Path(path), "a PEM file with a private key")
    if content is None:
        return None
    passphrase = oauth.keys.assertion_private_key_passphrase
    try:
        return read_private_key(content, passphrase or None, oauth.keys.assertion_algorithm)
    except KeyProblem as problem:
        refuse = oauth.refuse if problem.is_password else oauth.refuse_content
        refuse(KEY_FILE, str(problem), _key_fix(oauth, problem))
        return None


def _key_fix(oauth: OAuthProperties, problem: KeyProblem) -> str:
    if not problem.is_password:
        return problem.fix
    verb = "add" if oauth.value(_PASSPHRASE) is None else "correct"
    return f"replace PASSWORD with its password, and {verb}:" + to_copy(f"{oauth.key(_PASSPHRASE)} = PASSWORD")


def _template(oauth: OAuthProperties) -> str | None:
    path = oauth.keys.assertion_template_file
    if not path:
        return None
    content = oauth.read_file(TEMPLATE, Path(path), "a JSON file")
    if content is None:
        return None
    try:
        read_template(content)
    except ValueError as error:
        fix = 'write it as in {"header": {"kid": "key-1"}, "payload": {"sub": "mm2"}}'
        oauth.refuse_content(TEMPLATE, str(error), fix)
        return None
    return content
