"""The rows of the fault table on the common stage. Each fault lasts as long as its seed decides, and is healed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from tests.faults import cluster_faults, node_faults
from tests.faults.fault_stage import Stage, Topology
from tests.faults.mode import slug
from tests.lab.jars import KAFKA_3


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """``strike`` injects the fault and heals it, while records are written to a topic; it returns what it did.

    ``possible``: in which topologies. ``prepare`` is called with the stage and the name of the topic before that is
    created. ``keeps_data``: whether the clusters keep what they have acknowledged; if not, a loss must be on record.
    ``once``: whether it can strike a stage only once.
    """

    name: str
    strike: Callable[[Stage, str, Random], str]
    possible: Callable[[Topology], bool] = lambda _: True
    prepare: Callable[[Stage, str], None] = lambda _stage, _topic: None
    keeps_data: bool = True
    once: bool = False

    def __str__(self) -> str:
        return slug(self.name)


def _ours(topology: Topology) -> bool:
    return not topology.mode.java


def _three_brokers(topology: Topology) -> bool:
    return topology.brokers == 3


FAULTS = (
    Fault(name="node stopped", strike=node_faults.stop_node),
    Fault(name="node killed", strike=node_faults.kill_node),
    Fault(name="all nodes killed", strike=node_faults.kill_all_nodes),
    Fault(name="node suspended", strike=node_faults.suspend_node),
    Fault(name="engine JVM killed", strike=node_faults.kill_engine, possible=_ours),
    Fault(name="engine JVM suspended", strike=node_faults.suspend_engine, possible=_ours),
    Fault(name="lane killed", strike=node_faults.kill_lane, possible=_ours),
    Fault(name="lane suspended", strike=node_faults.suspend_lane, possible=_ours),
    Fault(
        name="ZooKeeper suspended",
        strike=cluster_faults.freeze_zookeeper,
        possible=lambda one: one.election == "zookeeper",
    ),
    Fault(name="coordinator killed", strike=cluster_faults.kill_coordinator, possible=_three_brokers),
    Fault(
        name="transaction coordinator killed",
        strike=cluster_faults.kill_transaction_coordinator,
        possible=lambda one: one.mode.exactly_once and _three_brokers(one),
    ),
    Fault(name="source broker killed", strike=cluster_faults.kill_source_broker, possible=_three_brokers),
    Fault(name="target broker killed", strike=cluster_faults.kill_target_broker, possible=_three_brokers),
    Fault(name="target broker suspended", strike=cluster_faults.suspend_target_broker, possible=_three_brokers),
    Fault(name="brokers restarted", strike=cluster_faults.restart_brokers, possible=_three_brokers),
    Fault(name="cut off source", strike=cluster_faults.cut_off_source),
    Fault(name="cut off target", strike=cluster_faults.cut_off_target),
    Fault(name="cut off one broker", strike=cluster_faults.cut_off_broker, possible=_three_brokers),
    Fault(name="source throttled", strike=cluster_faults.throttle_source),
    Fault(name="target throttled", strike=cluster_faults.throttle_target),
    Fault(name="timestamps skewed", strike=cluster_faults.skew_timestamps),
    Fault(name="clock skewed", strike=node_faults.skew_clock, possible=lambda one: one.clocks),
    Fault(
        name="brokers upgraded",
        strike=cluster_faults.upgrade_brokers,
        possible=lambda one: one.version == KAFKA_3,
        once=True,
    ),
    Fault(name="records deleted", strike=cluster_faults.delete_records, keeps_data=False),
    Fault(
        name="unclean target election",
        strike=cluster_faults.elect_uncleanly,
        possible=_three_brokers,
        prepare=cluster_faults.place_on_two_brokers,
        keeps_data=False,
    ),
)
