"""The files of credentials that a lane on another machine needs: keytabs, ticket caches, tokens and assertions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mm2.core.lanes.lease import SourceTaskLease


def credentials_of(leases: Iterable[SourceTaskLease], contents: Mapping[str, str]) -> Mapping[str, str]:
    """Return those of the ``contents``, by file, that clients of ``leases`` use."""
    files = {file for lease in leases for client in lease.clients for file in client.files}
    return {file: content for file, content in contents.items() if file in files}
