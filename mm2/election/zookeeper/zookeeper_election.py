"""Election by ZooKeeper. Below the flow's path::

    members/<token>-<number>   ephemeral: the member's metadata; ZooKeeper assigns the number
    round                      the last rebalance; the znode's version is the generation

The oldest member leads. In one transaction it writes `round`, if that has the version it read and its own member znode
exists: a generation therefore has one leader, and a former leader cannot write. The assignments of all members are part
of `round`. docs/adr/0005-election-on-zookeeper.md gives the reasons.

A member's znode contains its metadata as JSON and its membership in the held group. A node that was killed and restarts
has another member ID in the group than its former process; ``generation`` is that of the group in which the member
created its znode:

    {"node": str, …, "group": {"member": member ID in the group, "generation": int}}

The content of `round` is one complete rebalance as JSON:

    {"leader": member id, "members": {member id: {"node": str, …}},
     "shared": [any JSON, …], "answer": {member id: index of ``shared``}}

``answer`` contains all members, ``members`` those whose metadata could be decoded
(`mm2.election.kafka.group_messages`). Each different answer is written once, because usually all are equal. Unknown
keys are ignored, for rolling upgrades.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from kazoo.exceptions import (
    BadVersionError,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    SessionClosedRequireSaslError,
    ZookeeperError,
)

from mm2.core.settings.zookeeper import READS_PER_SESSION, ZooKeeperSettings
from mm2.core.wire.formats import FormatError
from mm2.core.wire.json_bytes import as_int, decode_json
from mm2.election.kafka.group_messages import (
    decode_member,
    decode_member_json,
    decode_members,
    dump_json,
    encode_member,
    member_json,
)
from mm2.election.membership_stream import SessionElection
from mm2.election.protocol import Assign, Joined, Json, Lost, MemberInfo
from mm2.election.zookeeper.zookeeper_session import LOOK_AT_IDENTITY, NotConnected, SessionOver, ZooKeeperSession
from mm2.kafka.backoff import Backoff
from mm2.kafka.clock import session_clock


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldMembership:
    """A member of the held group, as of one generation."""

    member_id: str
    generation: int

    def has_ended(self, group: Joined) -> bool:
        """Return whether the broker has removed this member, as far as another member's rebalance ``group`` shows.

        It was part of its generation, and a broker never assigns a member ID again; so it has left if a later
        generation is without it. An earlier one shows nothing, nor does a list in which the reader itself is missing.
        """
        complete = group.member_id in group.members
        return complete and self.generation < group.generation and self.member_id not in group.members


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberZnode:
    """``group``: the membership in the held group; None if the znode has none that can be read."""

    info: MemberInfo
    group: HeldMembership | None

    def has_lost_group(self, group: Joined, lost_nodes: Collection[str]) -> bool:
        """Return whether this member has lost the held group, whose last rebalance is ``group``.

        ``lost_nodes``: the node IDs that have left the group; they decide if the znode names no membership.
        """
        return self.info.node_id in lost_nodes if self.group is None else self.group.has_ended(group)


def encode_member_znode(info: MemberInfo, group: HeldMembership | None) -> bytes:
    """Return the bytes of this node's znode. Equal arguments give equal bytes."""
    message: dict[str, Json] = member_json(info)
    if group is not None:
        message["group"] = {"member": group.member_id, "generation": group.generation}
    return dump_json(message)


def decode_member_znode(raw: bytes) -> MemberZnode | None:
    """Read a member's znode; None if the metadata cannot be read."""
    try:
        message = decode_json(raw, "member znode")
    except FormatError:
        return None
    info = decode_member_json(message)
    return MemberZnode(info=info, group=_decode_group(message.get("group"))) if info is not None else None


def _decode_group(message: object) -> HeldMembership | None:
    if not isinstance(message, Mapping):
        return None
    try:
        return HeldMembership(member_id=str(message["member"]), generation=as_int(message["generation"]))
    except (KeyError, TypeError):
        return None


log = logging.getLogger(__name__)

_LOOK_AT_SERVERS = "Check that they are running, and mm2.zookeeper.connect"
_RETRY_FIRST_MS = 100
_RETRY_LONGEST_MS = 5_000  # each new session costs a connection and three threads


MOST_BYTES = 1_000_000
"""Limit of the message. ZooKeeper's servers close the connection without an error for requests larger than
jute.maxbuffer, 1,048,575 bytes by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceMessage:
    """The result of one rebalance."""

    leader_id: str
    members: Mapping[str, MemberInfo]
    answers: Mapping[str, Json]


def encode_round(decided: RebalanceMessage) -> bytes:
    """Return the bytes for the znode."""
    shared: dict[int, Json] = {id(answer): answer for answer in decided.answers.values()}
    numbers = {key: number for number, key in enumerate(shared)}
    message: dict[str, Json] = {
        "leader": decided.leader_id,
        "members": {member_id: member_json(info) for member_id, info in decided.members.items()},
        "shared": [*shared.values()],
        "answer": {one: numbers[id(answer)] for one, answer in decided.answers.items()},
    }
    return dump_json(message)


def decode_round(raw: bytes) -> RebalanceMessage | None:
    """Read the bytes of the znode; None if there was no rebalance yet, or another version wrote it."""
    try:
        message = decode_json(raw, "rebalance")
        leader, members = message["leader"], message["members"]
        shared = message["shared"]
        answers = {one: shared[as_int(number)] for one, number in message["answer"].items()}
    except (FormatError, TypeError, KeyError, IndexError, AttributeError, ValueError):
        return None
    if not isinstance(members, dict):
        return None
    return RebalanceMessage(leader_id=str(leader), members=decode_members(members), answers=answers)


class ZooKeeperElection(SessionElection):
    """An `Election`. One task reads the znodes on every change and several times per session timeout, and acts on them.

    Between two reads it keeps no state that is not in the znodes. Invariants in addition to the port's:
    D. The session timeout starts when a read is sent, not when it is answered, and every read goes through the servers'
       leader (``sync``): a server that was disconnected from it still answers reads.
    E. While disconnected (kazoo's SUSPENDED) nothing is written; the membership lasts until the session timeout, since
       this node cannot have been replaced before. After that (LOST) a leader rejoins with a new rebalance.
    F. A membership is one session. Anything that ends the membership also ends the session, so that the others need not
       wait.
    """

    def __init__(
        self, settings: ZooKeeperSettings, info: MemberInfo, assign: Assign, group: Joined | None = None
    ) -> None:
        """``group``: the last rebalance of the held Kafka group; see `DecidingElection`."""
        self._settings = settings
        super().__init__(info, assign, store=self._where, name=f"election {settings.path}")
        self._path = settings.path.rstrip("/")
        self._round_path = f"{self._path}/round"
        self._members_path = f"{self._path}/members"
        self._member_id = ""
        self._reported = b""  # content of our member znode
        self._round_wanted = False
        self._own = HeldMembership(member_id=group.member_id, generation=group.generation) if group else None
        self._group = group
        self._applied_group: Joined | None = None  # the one whose lost members' znodes are deleted
        self._lost_nodes: frozenset[str] = frozenset()  # node IDs that have left the group since then
        self._last_error = ""
        self._session: ZooKeeperSession | None = None

    def update(self, info: MemberInfo, *, quiet: bool = False) -> None:
        """Replace this member's metadata; a change starts a rebalance, unless ``quiet``."""
        del quiet  # it is written immediately; the leader decides whether a rebalance is due (`_is_due`)
        if encode_member(info) != encode_member(self._info):
            self._info = info
            self._wake.set()

    def expect_rebalance(self, wanted: bool) -> None:
        """Do nothing: watches report rebalances immediately."""

    def request_round(self) -> None:
        """Start a rebalance if this node leads."""
        self._round_wanted = True
        self._wake.set()

    def group_changed(self, group: Joined) -> None:
        """Delete the member znodes of those that have lost the group: their sessions may last longer."""
        before, self._group = self._group, group
        self._lost_nodes = (self._lost_nodes | _node_ids(before)) - _node_ids(group)
        self._wake.set()

    # -- sessions

    async def _run(self) -> None:
        backoff = Backoff(_RETRY_FIRST_MS, _RETRY_LONGEST_MS)
        while True:
            try:
                async with ZooKeeperSession(self._settings, self._wake.set) as session:
                    self._session = session
                    try:
                        await self._live(session, backoff)
                    except Exception as error:
                        self._lose(error)  # before the session is closed, which can take seconds
                        raise
            except (SessionOver, ZookeeperError):
                await asyncio.sleep(backoff.next())

    def _lose(self, error: Exception) -> None:
        reason = str(error) if isinstance(error, SessionOver) else _explained(error)
        self._stream.publish(Lost(reason=f"{self._where}: {reason}"))

    async def _live(self, session: ZooKeeperSession, backoff: Backoff) -> None:
        """Take part in the election with one session. Raises SessionOver and kazoo's ZookeeperError."""
        self._member_id, token = "", uuid.uuid4().hex[:12]
        patient = True  # a connection that is established within a heartbeat interval is not reported
        while True:
            self._wake.clear()
            try:
                if session.connected:
                    if not self._member_id:
                        await self._enter(session, token)
                    await self._look(session)
                    backoff.reset()
                    patient = True
                else:
                    self._cannot_ask(session.last_error, patient=patient)
            except NotConnected as error:
                self._cannot_ask(str(error), patient=patient)
            pause_ms = min(self._settings.heartbeat_interval_ms, session.timeout_ms / READS_PER_SESSION)
            try:
                async with asyncio.timeout(pause_ms / 1000):
                    await self._wake.wait()
            except TimeoutError:
                patient = False

    def _cannot_ask(self, last_error: str, *, patient: bool) -> None:
        self._last_error = last_error
        if last_error and not patient and not isinstance(self._stream.membership, Joined):
            self._stream.publish(Lost(reason=self._without_contact()))

    async def _enter(self, session: ZooKeeperSession, token: str) -> None:
        """Create our member znode, unless an earlier attempt did and its response was lost; the token shows that."""
        await session.ask("ensure_path", self._members_path)
        with contextlib.suppress(NodeExistsError):
            await session.ask("create", self._round_path, b"")
        mine = [one for one in await session.ask("get_children", self._members_path) if one.startswith(token)]
        if not mine:
            self._reported = encode_member_znode(self._info, self._own)
            path = f"{self._members_path}/{token}-"
            made = await session.ask("create", path, self._reported, ephemeral=True, sequence=True)
            mine = [made.rpartition("/")[2]]
        self._member_id = mine[0]

    # -- one read

    async def _look(self, session: ZooKeeperSession) -> None:
        began = session_clock()
        await session.ask("sync", self._path)
        ids = sorted(await session.ask("get_children", self._members_path, watch=session.watch), key=_age)
        if self._member_id not in ids:
            raise SessionOver("this node's member znode was removed")
        if self._group is not None and self._group is not self._applied_group:
            ids = await self._delete_lost(session, ids, self._group)
        raw, stat = await session.ask("get", self._round_path, watch=session.watch)
        await self._tell_news(session)
        generation, decided = stat.version, decode_round(raw)
        if ids[0] == self._member_id:
            generation, decided = await self._lead(session, ids, generation, decided)
        else:
            self._round_wanted = False  # only the leader's request has an effect
        if decided is not None and self._member_id in decided.answers:
            self._join(generation, decided)
            self._stream.extend(since=began, lasting_ms=session.timeout_ms)  # if that has passed, it ends immediately
        else:
            self._stream.publish(Lost(reason=f"{self._where}: {self._why_left_out(raw, decided)}"))

    async def _delete_lost(self, session: ZooKeeperSession, ids: Sequence[str], group: Joined) -> list[str]:
        """Delete the znodes of members that have lost the held group; return the IDs of the others."""
        lost_nodes, lost = self._lost_nodes, set()
        for one in ids:
            path = f"{self._members_path}/{one}"
            with contextlib.suppress(NoNodeError):  # it left in between, which the watch reports
                found = decode_member_znode((await session.ask("get", path))[0])
                if one != self._member_id and found is not None and found.has_lost_group(group, lost_nodes):
                    await session.ask("delete", path)
                    lost.add(one)
                    log.info("%s: removed a member of node %s that has lost the group", self._where, found.info.node_id)
        self._applied_group = group
        self._lost_nodes -= lost_nodes
        return [one for one in ids if one not in lost]

    def _why_left_out(self, raw: bytes, decided: RebalanceMessage | None) -> str:
        if raw and decided is None:
            return "ignoring assignment from the leader: unknown format (different version?)"
        if isinstance(self._stream.membership, Joined):
            return "a rebalance completed without this node"
        return "waiting for the leader to start a rebalance"

    async def _tell_news(self, session: ZooKeeperSession) -> None:
        news = encode_member_znode(self._info, self._own)
        if news != self._reported:
            await session.ask("set", f"{self._members_path}/{self._member_id}", news)
            self._reported = news

    async def _lead(
        self, session: ZooKeeperSession, ids: Sequence[str], generation: int, decided: RebalanceMessage | None
    ) -> tuple[int, RebalanceMessage | None]:
        """Start a rebalance if something changed since the last one; return the generation and the valid rebalance."""
        infos: dict[str, MemberInfo | None] = {}
        for one in ids:
            with contextlib.suppress(NoNodeError):  # it left in between
                raw, _ = await session.ask("get", f"{self._members_path}/{one}", watch=session.watch)
                infos[one] = decode_member(raw)
        members = {one: info for one, info in infos.items() if info is not None}
        returned = not isinstance(
            self._stream.membership, Joined
        )  # it had lost membership, and so leadership, meanwhile
        if not (returned or self._round_wanted or self._is_due(infos.keys(), members, decided)):
            return generation, decided
        self._round_wanted = False  # a request from now on is for another rebalance
        if len(members) < len(infos):
            log.warning(
                "%s: ignoring %d members with undecodable metadata; no tasks assigned to them",
                self._where,
                len(infos) - len(members),
            )
        assignments = self._assign(generation + 1, members)
        answers = {one: assignments.get(one) for one in infos}
        data = encode_round(RebalanceMessage(leader_id=self._member_id, members=members, answers=answers))
        return await self._write(session, generation, data), decode_round(data)  # as the other members will read it

    def _is_due(self, ids: Set[str], members: Mapping[str, MemberInfo], decided: RebalanceMessage | None) -> bool:
        return (
            decided is None
            or decided.leader_id != self._member_id
            or decided.answers.keys() != ids
            or _news(decided.members) != _news(members)
        )

    async def _write(self, session: ZooKeeperSession, generation: int, data: bytes) -> int:
        """Write the next generation and return its number."""
        if len(data) > MOST_BYTES:
            raise SessionOver(
                f"the assignments take {len(data)} bytes, more than ZooKeeper accepts ({MOST_BYTES}); reduce tasks.max "
                "or the number of nodes"
            )
        own = f"{self._members_path}/{self._member_id}"
        try:
            return await session.write_if(own, self._round_path, data, generation)
        except NotConnected:
            self._round_wanted = True  # it is unknown whether it was written; a second rebalance does no harm
            raise
        except NoNodeError:
            raise SessionOver("this node's member znode was removed: another member leads") from None
        except BadVersionError:
            raise SessionOver(f"another member wrote generation {generation + 1}") from None

    def _join(self, generation: int, decided: RebalanceMessage) -> None:
        self._last_error = ""
        self._stream.publish(
            Joined(
                generation=generation,
                member_id=self._member_id,
                leader_id=decided.leader_id,
                members=decided.members,
                assignment=decided.answers.get(self._member_id),
            )
        )

    def _overdue(self) -> Lost:
        return Lost(reason=self._without_contact())

    def _without_contact(self) -> str:
        return f"{self._where}: no contact: {self._last_error or 'the servers do not answer'}. {_LOOK_AT_SERVERS}"

    @property
    def _where(self) -> str:
        return f"election {self._settings.path} on ZooKeeper {','.join(self._settings.servers)}"


def _node_ids(group: Joined | None) -> frozenset[str]:
    return frozenset(info.node_id for info in group.members.values()) if group else frozenset()


def _news(members: Mapping[str, MemberInfo]) -> dict[str, MemberInfo]:
    """Return the member metadata without the epoch, which changes with each rebalance and would cause endless ones."""
    return {one: replace(info, epoch=-1) for one, info in members.items()}


def _age(member_id: str) -> tuple[int, str]:
    """Return a sort key: older members first, by ZooKeeper's number. Foreign znodes without a number are last."""
    number = member_id.rpartition("-")[2]
    return (int(number), member_id) if number.isdecimal() else (2**31, member_id)


def _explained(error: Exception) -> str:
    name = type(error).__name__
    if isinstance(error, NoAuthError):
        return f"{name}: no permission to read or write: the znodes belong to another user. {LOOK_AT_IDENTITY}"
    if isinstance(error, SessionClosedRequireSaslError):
        return f"{name}: the servers require SASL authentication. {LOOK_AT_IDENTITY}"
    return f"{name} {error}".strip()
