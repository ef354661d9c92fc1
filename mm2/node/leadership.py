"""What a node does for a whole flow while it leads it: discovery, topic syncs, lists of slots and groups, pauses, the
session key, what its file says. Everything that the other nodes have to know goes into
``mm2-configs.<source>.internal``."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Mapping, Sequence

from mm2.config.settings import FlowSettings
from mm2.core import flow_terms, pauses
from mm2.core.assignment import WEIGHT, spread
from mm2.core.coverage import Coverage, coverage
from mm2.core.flow_terms import FlowTerms, encode_terms
from mm2.core.names import TopicPartition
from mm2.core.partition_load import weights_of
from mm2.core.pauses import Pauses, encode_pauses
from mm2.core.placement import Placement
from mm2.core.replication_filter import ReplicationFilter
from mm2.core.session_keys import SESSION_KEY, encode_session_key, needs_new_key, new_session_key
from mm2.core.slot_plan import SlotPlan
from mm2.core.slot_records import SlotRecord, encode_slot
from mm2.core.slot_reports import SlotReport
from mm2.core.tasks import TaskId, TaskKind
from mm2.kafka.admin import ClusterAdmin
from mm2.kafka.backoff import Backoff
from mm2.kafka.cluster import Cluster
from mm2.kafka.errors import ClusterError
from mm2.node.config_topic import ConfigTopic
from mm2.node.config_writer import ConfigWriter
from mm2.node.discovery import TopicDiscovery
from mm2.node.group_plan import GroupPlan
from mm2.node.predecessor import tell_differences
from mm2.node.progress import ReplicatedTopic
from mm2.node.remote_topics import Discovery
from mm2.node.tasks.checkpoint import reason_for_none
from mm2.node.topic_syncs import TopicSyncs
from mm2.node.trouble import troubled

log = logging.getLogger(__name__)

SESSION_KEY_LOOK_S = 10.0
"""How late a session key may be replaced: its life is an hour by default."""

WEIGH_EVERY_S = 10.0
"""How old the weights of slots may be: to add up 10,000 partitions takes some milliseconds."""

EVEN_OUT_EVERY_S = 60.0
"""How often partitions are looked at for load that has shifted: what was measured has a half-life of a minute."""


class Leadership:
    """One time of leading. Invariants: (A) nothing is decided before everything that predecessors published was read,
    and none of them can publish any more (where the broker lets us write in transactions). (B) Nothing of it stops what
    runs: a leader that can do nothing leaves every node with what it has.
    """

    def __init__(
        self,
        settings: FlowSettings,
        *,
        generation: int,
        source: Cluster,
        target: Cluster,
        configs: ConfigTopic,
        reports: Mapping[int, SlotReport],
        terms: Callable[[], FlowTerms | None],
        changed: Callable[[], None],
        before: Leadership | None = None,
    ) -> None:
        """``reports``: those about slots that were read so far; later ones come by `heard`. ``terms``: what this
        node's file says. ``changed`` is called when tasks came, went or changed their weight: another round may be due.
        ``before``: this node's own, under other settings; its topics are shown until ours are known."""
        self._flow = settings.flow
        self._settings = settings
        self._generation = generation
        self._target = target
        self._configs = configs
        self._terms = terms
        self._changed = changed
        chosen = ReplicationFilter(
            flow=settings.flow,
            policy=settings.policy,
            selects=settings.topic_filter,
            replicate_heartbeats=settings.source.heartbeats_replication_enabled,
        )
        admin: ClusterAdmin = settings.admin_class(target)
        shown: Discovery | None = before._discovery.latest if before is not None else None
        self._discovery: TopicDiscovery = TopicDiscovery(settings, settings.admin_class(source), admin, chosen, shown)
        self._syncs = TopicSyncs(settings, source, admin, self._discovery, chosen)
        self._reports = reports
        transactional_id = f"connect-cluster-{settings.worker.group_id}"  # Java's
        self._writer = ConfigWriter(target, configs.topic, transactional_id)
        self._writing = asyncio.Lock()
        self._groups = GroupPlan(settings, source, configs, generation=generation, put=self._put, changed=changed)
        self._plan: SlotPlan | None = None
        self._owners: dict[int, str] = {}
        self._demands: dict[TopicPartition, int] = {}
        self._unwritten: list[SlotRecord] = []
        self._wanted: tuple[tuple[TopicPartition, ...], ...] = ()
        self._spread: tuple[TopicPartition, ...] | None = None
        self._spread_at = float("-inf")
        self._weights: dict[int, int] = {}
        self._weighed_at = float("-inf")
        self._covered: tuple[object, Coverage[TopicPartition]] | None = None
        self._due = asyncio.Event()
        self._publishing: str | None = None

    async def run(self, on_ready: Callable[[], None]) -> None:
        """Lead until cancelled; ``on_ready`` is called when it has begun. Raises (groups of) ClusterErrors: Fenced when
        another node leads, and what waiting does not heal."""
        await self._writer.begin()
        await self._configs.catch_up()
        epoch = self._configs.slots.epoch_of_next_leader(self._generation)
        self._plan = SlotPlan(self._configs.slots, epoch)
        self._plan.owned(self._owners)
        for report in self._reports.values():
            self.heard(report)
        self.say_terms()
        on_ready()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._keep_session_key(), name=f"{self._flow} session key")
            tasks.create_task(self._keep_published(self._plan), name=f"{self._flow} publish")
            if self._settings.enabled:
                tasks.create_task(self._discovery.run(self._take), name=f"{self._flow} discover")
                tasks.create_task(self._syncs.run(), name=f"{self._flow} topic syncs")
                tasks.create_task(tell_differences(self._settings, self._target), name=f"{self._flow} predecessor")
            if reason_for_none(self._settings) is None:
                tasks.create_task(self._groups.run(), name=f"{self._flow} lists of groups")

    @property
    def begun(self) -> bool:
        """Whether everything that predecessors published was read."""
        return self._plan is not None

    # -- what the election says

    def placed(self, placement: Placement) -> None:
        """A round decided who runs what."""
        places = {task: place for task, place in placement.places.items() if task.kind is TaskKind.SOURCE}
        self._owners = {task.number: place.owner for task, place in places.items() if place.owner is not None}
        if self._plan is not None:
            self._plan.owned(self._owners)
            self._due.set()

    def weights(self) -> dict[int, int]:
        """The weight of each slot, from what its partitions demand."""
        now = time.monotonic()
        if now - self._weighed_at >= WEIGH_EVERY_S or self._weights.keys() != self._configs.slots.records.keys():
            known = weights_of(self._demands)
            self._weighed_at = now
            self._weights = {
                slot: sum(known.get(partition, WEIGHT) for partition in record.partitions)
                for slot, record in self._configs.slots.records.items()
            }
        return self._weights

    # -- slots

    async def _take(self, discovery: Discovery) -> None:
        """Spread over slots what was found, unless that changes nothing any more."""
        assert self._plan is not None
        now = time.monotonic()
        even = discovery.partitions == self._spread and now - self._spread_at < EVEN_OUT_EVERY_S
        ids = {topic.topic: topic.topic_ids for topic in discovery.topics if any(topic.topic_ids)}
        if not even:
            self._demands = {one: self._demands[one] for one in discovery.partitions if one in self._demands}
            self._wanted = await asyncio.to_thread(  # a tenth of a second for 10,000 partitions: leases cannot wait
                spread,
                discovery.partitions,
                tasks_max=self._settings.source.tasks_max,
                previous=self._plan.slots,
                weights=weights_of(self._demands),
            )
            self._spread, self._spread_at = discovery.partitions, now
        self._plan.want(self._wanted, ids)
        self._due.set()

    def heard(self, report: SlotReport) -> None:
        """A node says which list one of its slots runs."""
        for partition, demand in report.demands.items():
            self._demands[partition] = demand
        if self._plan is not None:
            self._plan.heard(report)
            self._due.set()

    async def _keep_published(self, plan: SlotPlan) -> None:
        """Publish lists as they change. What could not be written is written before anything newer."""
        backoff = Backoff(100, 10_000)
        while True:
            await self._due.wait()
            self._due.clear()
            self._unwritten += plan.due()
            self._publishing = None
            while self._unwritten or self._unsaid():
                try:
                    await self._put([pair for record in self._unwritten for pair in encode_slot(record)])
                    await self._put(self._unsaid())
                    self._unwritten.clear()
                    await self._configs.catch_up()
                except ClusterError as error:
                    if not error.retriable:
                        raise
                    self._publishing = troubled(
                        log, self._flow, self._publishing, f"publish what other nodes have to know: {error}"
                    )
                    await asyncio.sleep(backoff.next())
                    continue
                backoff.reset()
                self._publishing = None
                self._due.set()  # what was taken from a slot that nobody runs may be given now
                self._changed()

    # -- what else is published

    def say_terms(self) -> None:
        """Publish what this node's file says, if that is news."""
        self._due.set()

    def _unsaid(self) -> list[tuple[bytes, bytes]]:
        mine = self._terms()
        return [] if mine is None or mine == self._configs.terms else [(flow_terms.KEY, encode_terms(mine))]

    async def pause(self, paused: Pauses) -> None:
        """Have every node stop copying what is ``paused``, and nothing else. Raises ClusterError."""
        await self._put([(pauses.KEY, encode_pauses(paused))])

    async def tell(self, records: Sequence[tuple[bytes, bytes]]) -> None:
        """Publish a command. Raises ClusterError."""
        await self._put(records)

    async def _keep_session_key(self) -> None:
        rules = self._settings.worker.session_keys
        backoff = Backoff(1_000, 60_000)
        while True:
            now_ms = time.time_ns() // 1_000_000
            why = needs_new_key(self._configs.session_key, rules, now_ms)
            pause = SESSION_KEY_LOOK_S
            if why is not None:
                log.debug("%s: a new session key is made: %s", self._flow, why)
                key = new_session_key(rules, now_ms, secrets.token_bytes)
                try:
                    await self._put([(SESSION_KEY, encode_session_key(key))])
                    await self._configs.catch_up()
                    backoff.reset()
                except ClusterError as error:
                    if not error.retriable:
                        raise
                    log.info("%s: the session key could not be written: %s", self._flow, error)
                    pause = backoff.next()
            await asyncio.sleep(pause)

    async def _put(self, records: Sequence[tuple[bytes, bytes]]) -> None:
        async with self._writing:
            await self._writer.put(records)

    def look_now(self) -> None:
        """Look for topics, groups, configurations and ACLs now."""
        self._discovery.look_now()
        self._groups.look_now()
        self._syncs.look_now()

    # -- what is shown

    @property
    def topics(self) -> tuple[ReplicatedTopic, ...]:
        """Every replicated topic."""
        return self._discovery.latest.topics if self._discovery.latest is not None else ()

    def coverage(self) -> Coverage[TopicPartition]:
        """Whether every source partition that can be copied is in the list of one slot."""
        latest = self._discovery.latest
        wanted = latest.partitions if latest is not None else ()
        lists = tuple(self._configs.slots.records.values())
        moving = self._plan.moving if self._plan is not None else frozenset()
        if self._covered is None or self._covered[0] != (wanted, lists, moving):
            held = {str(record.slot): record.partitions for record in lists}
            self._covered = (wanted, lists, moving), coverage(wanted, held, moving=moving)
        return self._covered[1]

    def confirmed(self, slot: int) -> bool:
        """Whether the node that runs the slot has said that it runs its newest list."""
        return self._plan is not None and self._plan.confirmed(slot)

    @property
    def trouble(self) -> str | None:
        """What keeps the flow as a whole from being led, None when nothing does."""
        return self._discovery.trouble if self._settings.enabled else None

    def reasons(self) -> list[str]:
        """One sentence for each thing that is wrong, or that a person should know."""
        found = [self.trouble, self._publishing, self._groups.trouble, self._writer.warning]
        return [*(one for one in found if one is not None), *self._syncs.warnings]


def flow_tasks(
    lists: Mapping[int, SlotRecord], lasting: Mapping[TaskId, int], weights: Mapping[int, int]
) -> dict[TaskId, int]:
    """What a flow's nodes share out, with weights: its slots that have something to copy, and its ``lasting`` tasks."""
    tasks = {
        TaskId(TaskKind.SOURCE, slot): weights.get(slot, WEIGHT * len(record.partitions))
        for slot, record in lists.items()
        if record.partitions
    }
    return tasks | dict(lasting)
