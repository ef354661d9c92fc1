"""The host in a broker's principal, as Java determines it."""

from __future__ import annotations

import ipaddress
import socket

from mm2.core.kerberos.krb5_conf import libdefault


def principal_host(host: str, krb5_conf: str | None) -> str:
    """Return the host name for the principal of the broker at ``host``.

    An address is replaced by its name, if it has one (Kafka's SaslChannelBuilder: InetAddress.getHostName). A short
    name is replaced by the long one that begins with it, such as b1.example.com for b1 (the JDK's PrincipalName),
    unless krb5.conf says dns_canonicalize_hostname = false. Blocks for the time that DNS takes.
    """
    if _is_address(host):
        return _name_of(host) or host
    if libdefault(krb5_conf or "", "dns_canonicalize_hostname") != "false":
        long = _name_of(host)
        if long is not None and long.lower().startswith(f"{host.lower()}."):
            return long.lower()
    return host.lower()


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _name_of(host: str) -> str | None:
    try:
        return socket.gethostbyaddr(host)[0]
    except OSError:
        return None
