"""Tests of the rows of the fault table: each has a name of its own and a cell in some topology."""

from __future__ import annotations

from dataclasses import replace

from tests.faults.fault_scenarios import FAULTS
from tests.faults.mode import MODES, slug
from tests.faults.test_fault_table import OURS_ONLY, TOPOLOGIES


def test_names_are_unique() -> None:
    assert len({str(fault) for fault in FAULTS}) == len(FAULTS)
    assert len({mode.name for mode in MODES}) == len(MODES)


def test_row_is_selected_by_the_name_with_dashes() -> None:
    assert slug("ZooKeeper suspended") == "zookeeper-suspended"


def test_every_fault_has_a_topology() -> None:
    for fault in FAULTS:
        found = [one for one in (*TOPOLOGIES, *OURS_ONLY) if one.only in ("", fault.name)]
        assert any(fault.possible(replace(one, mode=mode)) for one in found for mode in MODES), fault
    names = {fault.name for fault in FAULTS}
    assert all(one.only in names for one in (*TOPOLOGIES, *OURS_ONLY) if one.only)
