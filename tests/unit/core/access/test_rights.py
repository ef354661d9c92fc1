from __future__ import annotations

import pytest

from mm2.core.access.rights import Right, implies, on_cluster, on_group, on_topic, on_transactional_id
from mm2.core.topics.acls import Operation


@pytest.mark.parametrize(
    ("right", "text"),
    [
        (on_topic(Operation.READ, "orders", "A"), "READ on topic orders of cluster A"),
        (on_topic(Operation.READ, "orders"), "READ on topic orders"),
        (on_group(Operation.DESCRIBE, "g", "A"), "DESCRIBE on group g of cluster A"),
        (on_transactional_id(Operation.WRITE, "t", "B"), "WRITE on transactional id t of cluster B"),
        (on_cluster(Operation.ALTER, "B"), "ALTER on cluster B"),
        (on_cluster(Operation.ALTER), "ALTER on the cluster"),
    ],
)
def test_text(right: Right, text: str) -> None:
    assert str(right) == text


def test_implied_operations() -> None:
    assert implies(Operation.READ, Operation.READ)
    assert implies(Operation.ALL, Operation.WRITE)
    for operation in (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER):
        assert implies(operation, Operation.DESCRIBE)
    assert implies(Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS)
    assert not implies(Operation.CREATE, Operation.DESCRIBE)
    assert not implies(Operation.ALTER, Operation.DESCRIBE_CONFIGS)
    assert not implies(Operation.DESCRIBE, Operation.READ)
