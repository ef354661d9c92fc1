"""No permission to read checkpoints of earlier runs: the task continues with what is replicated from then on."""

from __future__ import annotations

from pathlib import Path

import pytest

from mm2.node.status.status_model import GroupState
from tests.integration.checkpoints.flow import SOON, CheckpointFlow, shown
from tests.integration.guarded.conftest import LISTENER
from tests.integration.guarded.permissions import PASSWORD, USER
from tests.lab.cluster import KafkaCluster
from tests.lab.groups import commit
from tests.lab.waiting import until


async def test_only_the_last_sync_at_start_is_used(
    source: KafkaCluster, target: KafkaCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """testReadCheckpointsTopicError; as a consequence no group is moved back."""
    flow = CheckpointFlow(source, target, tmp_path)
    login = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="{USER}" password="{PASSWORD}";'
    reader = {  # this user cannot read that topic; all other clients are super users
        "bootstrap.servers": target.bootstrap_of(LISTENER.label),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": login,
    }
    flow.lines = "mm2.offset.translation = compatible\n" + "".join(
        f"{flow.a}->{flow.b}.target.consumer.{key} = {value}\n" for key, value in reader.items()
    )
    topic, group = flow.topic("t"), flow.named("g")
    flow.sync(topic, (100, 100), (200, 200), (300, 300))
    commit(flow.source, group, {(topic, 0): 250})
    async with flow.running() as task:
        await until(lambda: (s := shown(task, group)) and s.state is GroupState.TOO_OLD, SOON, "offset 250 is too old")
        assert await flow.checkpoints(group) == []
        (warning,) = [one for one in caplog.messages if "cannot read the checkpoints of earlier runs" in one]
        assert "TOPIC_AUTHORIZATION_FAILED" in warning
        flow.sync(topic, (400, 400))
        commit(flow.source, group, {(topic, 0): 350})
        assert (await flow.checkpoint(group, 350)).downstream == 301
        assert task.last_error is None
