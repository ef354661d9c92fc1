"""Parts of the long tests: every test belongs to one, and names and groups select them."""

from __future__ import annotations

import pytest

from tests.long.parts import PARTS, UnknownPartError, part_of, selected

TOPOLOGY = "tests/faults/test_fault_matrix.py::test_fault_loses_nothing[exactly-once: 2 nodes, 1 broker,"


@pytest.mark.parametrize(
    ("test", "part"),
    [
        ("tests/property/core/test_leases.py::test_leases", "property"),
        ("tests/integration/test_readme.py::test_readme_literally", "readme"),
        ("tests/integration/test_topologies.py::test_fan_out", "integration"),
        ("tests/parity/test_golden_vectors.py::test_golden_file_equals_java_output[a.json]", "parity"),
        ("tests/faults/test_fault_table.py::test_fault[at-least-once: 2 nodes-0-x]", "table-at-least-once"),
        ("tests/faults/test_fault_table.py::test_fault[java-exactly-once: 2 nodes-0-x]", "table-java-exactly-once"),
        ("tests/faults/test_processes.py::test_killing[exactly-once-17]", "processes-exactly-once"),
        ("tests/faults/test_soak.py::test_nodes_copy_for_hours[at-least-once]", "soak-at-least-once"),
        (f"{TOPOLOGY} kafka-0-node-stopped]", "matrix-2-nodes-exactly-once"),
        (f"{TOPOLOGY} zookeeper-0-node-stopped]", "matrix-zookeeper-exactly-once"),
        ("tests/faults/test_access.py::test_acl[A-exactly-once]", "faults"),
        ("tests/faults/test_a_new_file.py::test_something", "faults"),
    ],
)
def test_part_of_a_test(test: str, part: str) -> None:
    assert part_of(test).name == part


def test_names_and_groups_select_parts_in_their_order() -> None:
    assert [part.name for part in selected(["soak", "readme"])] == [
        "readme",
        "soak-at-least-once",
        "soak-exactly-once",
    ]
    assert selected([]) == PARTS
    assert len({part.name for part in PARTS}) == len(PARTS)


def test_an_unknown_part_is_an_error_that_lists_them() -> None:
    with pytest.raises(UnknownPartError) as raised:
        selected(["readme", "mat"])
    message = str(raised.value)
    assert message.startswith("no part is named mat\n")
    assert "matrix-5-nodes-exactly-once" in message
    assert "groups of parts: table processes soak matrix" in message


def test_a_part_of_another_verb_is_unknown() -> None:
    with pytest.raises(UnknownPartError, match="no part is named readme"):
        selected(["readme"], selected(["matrix"]))
