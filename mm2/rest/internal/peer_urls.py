"""Which URLs of other nodes a node connects to.

A node gets the URLs of the others from the group, where every client with READ on the group can write one. So a URL has
to be one that a node can advertise, and must not lead to addresses that only this machine or its network segment can
reach, such as the metadata service of a cloud (169.254.169.254).
"""

from __future__ import annotations

import asyncio
import socket
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import urlsplit

FORM = "is not a URL that a node advertises: http or https, a host and a port"


async def rejection(url: str, own_url: str | None) -> str | None:
    """Return why this node, whose own URL is ``own_url``, does not connect to ``url``; None: it does.

    Host names are resolved. If that fails, the request itself will report it.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return FORM
    others = (parts.username, parts.password, parts.path not in ("", "/"), parts.query, parts.fragment)
    if parts.scheme not in ("http", "https") or not host or any(others):
        return FORM
    try:
        addresses = await _addresses(host, port)
    except UnicodeError:  # a part of the name is empty, or longer than 63 characters
        return FORM
    for address in addresses:
        if address.is_loopback and not await _is_on_loopback(own_url):
            return "leads to the loopback interface of this machine: set rest.advertised.host.name on that node"
        if address.is_link_local or address.is_multicast or address.is_unspecified:
            return f"leads to {address}, which is not an address of a node"
    return None


async def _is_on_loopback(own_url: str | None) -> bool:
    """Return whether this node advertises a loopback address, or a name that is one in /etc/hosts, as on Debian."""
    parts = urlsplit(own_url or "")
    return parts.hostname is not None and any(one.is_loopback for one in await _addresses(parts.hostname, parts.port))


async def _addresses(host: str, port: int | None) -> list[IPv4Address | IPv6Address]:
    """Raises UnicodeError for what cannot be a name in DNS."""
    try:
        found = [ip_address(host.partition("%")[0])]
    except ValueError:
        try:
            resolved = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError:
            return []
        found = [ip_address(str(address[0]).partition("%")[0]) for *_, address in resolved]
    return [getattr(one, "ipv4_mapped", None) or one for one in found]
