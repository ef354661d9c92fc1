"""Secured listeners of a test cluster: TLS from an authority of its own, SASL users, and the properties that say so."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from mm2.core.settings.client import SecurityProtocol
from mm2.core.settings.sasl import SaslMechanism
from tests.lab.ports import HOST

INTERNAL = "PLAINTEXT"  # every broker has this listener: for its peers, and for tests to look behind the security
CONTROLLER = "CONTROLLER"

LOGIN_MODULES = {
    SaslMechanism.PLAIN: "org.apache.kafka.common.security.plain.PlainLoginModule",
    SaslMechanism.SCRAM_SHA_256: "org.apache.kafka.common.security.scram.ScramLoginModule",
    SaslMechanism.SCRAM_SHA_512: "org.apache.kafka.common.security.scram.ScramLoginModule",
    SaslMechanism.OAUTHBEARER: "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
}

TOKEN_VALIDATOR = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"

# Server properties for a cluster with ACLs: everything is denied that is not allowed, except to the internal listener.
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "allow.everyone.if.no.acl.found": "false",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """A listener in addition to the internal one. ``name`` distinguishes two of one protocol; default: the protocol.

    ``unsigned_tokens``: OAUTHBEARER accepts tokens without signature. ``advertised``: the host:port of each broker
    that clients use instead of the listener's own. ``host``: the address at which it listens.
    """

    protocol: SecurityProtocol
    mechanisms: tuple[SaslMechanism, ...] = ()
    client_certificates: bool = False
    name: str = ""
    unsigned_tokens: bool = False
    advertised: tuple[str, ...] = ()
    host: str = HOST

    @property
    def label(self) -> str:
        return self.name or self.protocol.value

    @property
    def encrypted(self) -> bool:
        return self.protocol in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    def properties(self, users: Mapping[str, str], pems: ServerPems) -> dict[str, str]:
        """Server properties of this listener."""
        prefix = f"listener.name.{self.label.lower()}"
        found: dict[str, str] = {}
        if self.encrypted:
            found |= {
                f"{prefix}.ssl.keystore.type": "PEM",
                f"{prefix}.ssl.keystore.location": str(pems.keystore),
                f"{prefix}.ssl.truststore.type": "PEM",
                f"{prefix}.ssl.truststore.location": str(pems.truststore),
                f"{prefix}.ssl.client.auth": "required" if self.client_certificates else "none",
            }
        if self.mechanisms:
            found[f"{prefix}.sasl.enabled.mechanisms"] = ",".join(self.mechanisms)
        for mechanism in self.mechanisms:
            known = (f'user_{name}="{password}"' for name, password in users.items())
            options = " ".join(known) if mechanism is SaslMechanism.PLAIN else ""
            found[f"{prefix}.{mechanism.lower()}.sasl.jaas.config"] = f"{LOGIN_MODULES[mechanism]} required {options};"
            if mechanism is SaslMechanism.OAUTHBEARER and not self.unsigned_tokens:
                found[f"{prefix}.oauthbearer.sasl.server.callback.handler.class"] = TOKEN_VALIDATOR
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPems:
    """Key with certificate, and the trusted authority, as files for one broker."""

    keystore: Path
    truststore: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientPems:
    """PEM texts of a client, or of a server: its certificate with chain, and its key (PKCS 8, not encrypted)."""

    certificate: str
    key: str


class Authority:
    """A certificate authority that signs for the brokers of one cluster and for its clients."""

    @cached_property
    def _ca(self) -> trustme.CA:
        return trustme.CA(organization_name="mm2 lab")

    @property
    def ca_pem(self) -> str:
        return self._ca.cert_pem.bytes().decode()

    def client(self, name: str, expires: datetime | None = None) -> ClientPems:
        """A certificate for CN=``name``."""
        issued = self._ca.issue_cert(f"{name}.client.test", common_name=name, not_after=expires)
        return ClientPems(certificate=_chain(issued), key=_pkcs8(issued))

    def server(self, *hosts: str) -> ClientPems:
        """A certificate for ``hosts``."""
        issued = self._ca.issue_cert(*hosts)
        return ClientPems(certificate=_chain(issued), key=_pkcs8(issued))

    def configure(self, context: ssl.SSLContext, name: str) -> None:
        """Make ``context`` present a certificate for CN=``name``."""
        self._ca.issue_cert(f"{name}.client.test", common_name=name).configure_cert(context)

    def write_server_pems(self, directory: Path, *hosts: str, expires: datetime | None = None) -> ServerPems:
        """Key and certificate for 127.0.0.1, localhost and ``hosts``, and the trust store, into ``directory``."""
        issued = self._ca.issue_cert(HOST, "localhost", *hosts, not_after=expires)
        pems = ServerPems(keystore=directory / "keystore.pem", truststore=directory / "truststore.pem")
        pems.keystore.write_text(_pkcs8(issued) + _chain(issued))
        pems.truststore.write_text(self.ca_pem)
        return pems


def _chain(issued: trustme.LeafCert) -> str:
    return "".join(pem.bytes().decode() for pem in issued.cert_chain_pems)


def _pkcs8(issued: trustme.LeafCert) -> str:
    """Java reads PKCS 8 only; trustme writes the older format, which openssl calls traditional."""
    key = load_pem_private_key(issued.private_key_pem.bytes(), password=None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
