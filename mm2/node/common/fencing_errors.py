"""Errors of fencing source tasks, and how to fix them."""

from __future__ import annotations

from mm2.kafka.errors import BrokerError, ClusterError, NotSupported
from mm2.kafka.protocol.error_codes import ErrorCode

_DENIED = frozenset({ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED})


class FencingFailedError(ClusterError):
    """The target cannot fence, although exactly.once.source.support requires it. The text contains the fix."""

    retriable = True


def permanent_fix(error: ClusterError, transactional_id: str) -> str | None:
    """Return how to fix an error that does not end by itself; None: it may. ``transactional_id`` is a source task's."""
    if isinstance(error, NotSupported):
        return "upgrade the brokers"
    if isinstance(error, BrokerError) and error.code in _DENIED:
        prefix = transactional_id.removesuffix(transactional_id.rpartition("-")[2])
        return f"grant the node's principal WRITE on transactional IDs with prefix {prefix}"
    return None
