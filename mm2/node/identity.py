"""The identity that a node presents to the other nodes of its flows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mm2.config.reload.comparison import ParsedConfig
from mm2.config.reload.fingerprint import digest, terms
from mm2.core.coordination.config_fingerprint import ConfigFingerprint
from mm2.core.naming.names import Flow


@dataclass(slots=True, kw_only=True)
class NodeIdentity:
    """Node ID, release and address of this node, and the fingerprints of its configuration file.

    ``node_id`` survives restarts if it is configured or `listeners` has a fixed port. ``url`` is the address for other
    nodes, empty if they cannot connect. ``terms`` is, by flow, the fingerprint of the settings that all nodes of the
    flow must share.
    """

    node_id: str
    version: str
    url: str = ""
    terms: Mapping[Flow, ConfigFingerprint] = field(default_factory=dict)

    def reads(self, reading: ParsedConfig) -> None:
        """Update the fingerprints from the current configuration file."""
        fingerprints = {flow.flow: terms(reading, flow) for flow in reading.settings.flows}
        self.terms = {
            flow: ConfigFingerprint(node=self.node_id, digest=digest(agreed), terms=agreed)
            for flow, agreed in fingerprints.items()
        }
