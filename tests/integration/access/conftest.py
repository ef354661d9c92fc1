"""A node with every feature, which may do nothing at first."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.access.guarded_flow import LISTENER, PASSWORD, PROGRAM, USERS, GuardedFlow
from tests.lab.cluster import KafkaCluster
from tests.lab.listeners import AUTHORIZER


@pytest.fixture(scope="package")
def guarded(request: pytest.FixtureRequest) -> Iterator[GuardedFlow]:
    """The flow in the mode that is the parameter."""
    users_a, users_b = {USERS["A"]: PASSWORD}, {USERS["B"]: PASSWORD, PROGRAM: PASSWORD}
    with (
        KafkaCluster("acl-source", listeners=(LISTENER,), users=users_a, properties=AUTHORIZER) as source,
        KafkaCluster("acl-target", listeners=(LISTENER,), users=users_b, properties=AUTHORIZER) as target,
    ):
        flow = GuardedFlow.of(source, target, request.param)
        with flow.node:
            yield flow
