"""Clients and configuration files with Kerberos."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

from mm2.core.settings.client import ClientSettings, SecurityProtocol
from mm2.core.settings.kerberos import KerberosLogin, TicketRenewal
from tests.integration.kafka.clients import settings
from tests.lab import tools
from tests.lab.cluster import KafkaCluster
from tests.lab.kdc import LOGIN_MODULE, REALM, Kdc

LISTENER = SecurityProtocol.SASL_PLAINTEXT


def keys_of(kdc: Kdc, user: str, keytab: Path, **other: Any) -> KerberosLogin:
    """Return a login with a keytab, which obtains a new ticket as often as it is asked for one."""
    return KerberosLogin(
        service_name=other.pop("service_name", "kafka"),
        principal=f"{user}@{REALM}",
        keytab=b64encode(keytab.read_bytes()).decode(),
        krb5_conf=other.pop("krb5_conf", kdc.krb5_conf.read_text()),
        renewal=TicketRenewal(min_seconds=1.0, kinit=tools.command("kinit")),
        **other,
    )


def client(kafka: KafkaCluster, login: KerberosLogin) -> ClientSettings:
    """Return the settings of a client."""
    return settings(kafka, LISTENER, security_protocol=LISTENER, sasl=login)


def lines(kafka: KafkaCluster, options: str, **more: str) -> dict[str, str]:
    """Return the properties of one cluster, without its alias. ``options``: of the login module."""
    return {
        "bootstrap.servers": kafka.bootstrap_of(LISTENER),
        "security.protocol": LISTENER,
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.jaas.config": f"{LOGIN_MODULE} required {options};",
        **more,
    }


def keytab_options(user: str, keytab: Path) -> str:
    """Return the options of a login module with a keytab."""
    return f'useKeyTab=true storeKey=true keyTab="{keytab}" principal="{user}@{REALM}"'
