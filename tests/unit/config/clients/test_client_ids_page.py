"""The client IDs of docs/how-to/limiting-bandwidth.md are those that clients have."""

from __future__ import annotations

import re
from pathlib import Path

from mm2.config.clients.flow_clients import ClientRole
from tests.unit.config import files

PAGE = Path(__file__).parents[4] / "docs" / "how-to" / "limiting-bandwidth.md"
_ROW = re.compile(r"\| ([AB]) \| `(.+?)` \| .+ \|")

UNUSED = {
    ClientRole.REPLICATION_TARGET_ADMIN,
    ClientRole.OFFSET_SYNCS_SOURCE_ADMIN,
    ClientRole.OFFSET_SYNCS_TARGET_ADMIN,
    ClientRole.HEARTBEATS_TARGET_ADMIN,
}
"""Java's clients for what nodes do with others. `mm2 topics` uses the first one."""


def test_the_page_lists_the_clients_of_a_node(tmp_path: Path) -> None:
    clients = files.flow(tmp_path).clients
    listed = {(row[1], row[2].replace(r"\|", "|")) for row in _ROW.finditer(PAGE.read_text())}
    possible: dict[ClientRole, set[tuple[str, str]]] = {}
    for role in ClientRole:
        of_role = (clients.of(role), clients.of(role, 0))
        possible[role] = {(one.alias, one.client_id) for one in of_role}
    assert listed <= set().union(*possible.values())
    assert {role for role, ids in possible.items() if not ids & listed} == UNUSED
