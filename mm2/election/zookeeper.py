"""Election by ZooKeeper. Below the flow's path::

    members/<token>-<number>   ephemeral: what a member says of itself (`group_messages`); the number is ZooKeeper's
    round                      the last round, whole (`round_messages`); its version is the generation

The oldest member leads. It writes the round if `round` is at the version it read, and if its own member znode is there,
in one transaction: so a generation has one leader, and one that was replaced cannot write. What the others are given is
delivered with the round itself, once per generation. Why so: docs/adr/0005-election-on-zookeeper.md.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence, Set
from dataclasses import replace
from types import TracebackType
from typing import Self

from kazoo.exceptions import (
    BadVersionError,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    SessionClosedRequireSaslError,
    ZookeeperError,
)

from mm2.core.zookeeper_settings import LOOKS_IN_A_SESSION, ZooKeeperSettings
from mm2.election.feed import MembershipFeed
from mm2.election.group_messages import decode_member, encode_member
from mm2.election.protocol import Assign, Joined, Lost, MemberInfo, Membership
from mm2.election.round_messages import MOST_BYTES, Round, decode_round, encode_round
from mm2.election.zookeeper_session import LOOK_AT_IDENTITY, NotConnected, SessionOver, ZooKeeperSession
from mm2.kafka.backoff import Backoff

log = logging.getLogger(__name__)

_LOOK_AT_SERVERS = "Are they up, and is mm2.zookeeper.connect right?"
_RETRY_FIRST_MS = 100
_RETRY_LONGEST_MS = 5_000  # a new session is a connection and three threads


class ZooKeeperElection:
    """An `Election`. One task looks at the znodes, whenever one changed and some times in a session, and does what
    follows from what it sees. It keeps nothing from one look to the next that the znodes do not say.

    Invariants besides the port's:
    D. The clock of the session starts when a look begins, not when it is answered, and every look goes to the servers'
       leader (``sync``): a server that was cut off from it still answers reads.
    E. While the connection is gone (kazoo's SUSPENDED) nothing is written; the membership stays until its clock ends
       it, since nobody can have been put in our place before. After that (LOST) a leader comes back with a new round.
    F. A membership is one session. What ends it otherwise ends the session too, so that the others need not wait.
    """

    def __init__(self, settings: ZooKeeperSettings, info: MemberInfo, assign: Assign) -> None:
        self._settings = settings
        self._info = info
        self._assign = assign
        self._path = settings.path.rstrip("/")
        self._round_path = f"{self._path}/round"
        self._members_path = f"{self._path}/members"
        self._member_id = ""
        self._told = b""  # what our member znode says
        self._round_wanted = False
        self._wake = asyncio.Event()
        self._trouble = ""
        self._feed = MembershipFeed(Lost(reason=f"joining {self._where}"), self._overdue)
        self._session: ZooKeeperSession | None = None

    @property
    def membership(self) -> Membership:
        """As of now."""
        return self._feed.membership

    def update(self, info: MemberInfo, *, quiet: bool = False) -> None:
        """Say something new of ourselves; a round begins if it differs from what was said last and is not ``quiet``."""
        del quiet  # it travels at once: what makes a round due is decided where it is read (`_is_due`)
        if encode_member(info) != encode_member(self._info):
            self._info = info
            self._wake.set()

    def hurry(self, wanted: bool) -> None:
        """Nothing to do: watches tell of rounds at once."""

    def request_round(self) -> None:
        """Begin a round if we lead."""
        self._round_wanted = True
        self._wake.set()

    def events(self) -> AsyncIterator[Membership]:
        """Every change from the start, for one reader. Ends when the context is left; raises what ``assign`` raised."""
        return self._feed.changes()

    async def __aenter__(self) -> Self:
        self._feed.begin(self._run(), f"election {self._settings.path}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._feed.end()

    # -- one session after the other

    async def _run(self) -> None:
        backoff = Backoff(_RETRY_FIRST_MS, _RETRY_LONGEST_MS)
        while True:
            try:
                async with ZooKeeperSession(self._settings, self._wake.set) as session:
                    self._session = session
                    try:
                        await self._live(session, backoff)
                    except Exception as error:
                        self._lose(error)  # before the session is ended, which may take seconds
                        raise
            except (SessionOver, ZookeeperError):
                await asyncio.sleep(backoff.next())

    def _lose(self, error: Exception) -> None:
        reason = str(error) if isinstance(error, SessionOver) else _explained(error)
        self._feed.say(Lost(reason=f"{self._where}: {reason}"))

    async def _live(self, session: ZooKeeperSession, backoff: Backoff) -> None:
        """One session, to its end. Raises SessionOver and kazoo's ZookeeperError."""
        self._member_id, token = "", uuid.uuid4().hex[:12]
        patient = True  # a connection that comes within a heartbeat is not worth a word
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
                    self._cannot_ask(session.trouble, patient=patient)
            except NotConnected as error:
                self._cannot_ask(str(error), patient=patient)
            pause_ms = min(self._settings.heartbeat_interval_ms, session.timeout_ms / LOOKS_IN_A_SESSION)
            try:
                async with asyncio.timeout(pause_ms / 1000):
                    await self._wake.wait()
            except TimeoutError:
                patient = False

    def _cannot_ask(self, trouble: str, *, patient: bool) -> None:
        self._trouble = trouble
        if trouble and not patient and not isinstance(self._feed.membership, Joined):
            self._feed.say(Lost(reason=self._without_contact()))

    async def _enter(self, session: ZooKeeperSession, token: str) -> None:
        """Make our member znode. Whether an attempt whose answer was lost had made it, the token tells."""
        await session.ask("ensure_path", self._members_path)
        with contextlib.suppress(NodeExistsError):
            await session.ask("create", self._round_path, b"")
        mine = [one for one in await session.ask("get_children", self._members_path) if one.startswith(token)]
        if not mine:
            self._told = encode_member(self._info)
            path = f"{self._members_path}/{token}-"
            made = await session.ask("create", path, self._told, ephemeral=True, sequence=True)
            mine = [made.rpartition("/")[2]]
        self._member_id = mine[0]

    # -- one look

    async def _look(self, session: ZooKeeperSession) -> None:
        began = asyncio.get_running_loop().time()
        await session.ask("sync", self._path)
        ids = sorted(await session.ask("get_children", self._members_path, watch=session.watch), key=_age)
        if self._member_id not in ids:
            raise SessionOver("our member znode was removed")
        raw, stat = await session.ask("get", self._round_path, watch=session.watch)
        await self._tell_news(session)
        generation, decided = stat.version, decode_round(raw)
        if ids[0] == self._member_id:
            generation, decided = await self._lead(session, ids, generation, decided)
        else:
            self._round_wanted = False  # only the leader's wish counts
        if decided is not None and self._member_id in decided.answers:
            self._join(generation, decided)
            self._feed.prove(since=began, lasting_ms=session.timeout_ms)  # if that is past, it ends at once
        else:
            self._feed.say(Lost(reason=f"{self._where}: {self._why_left_out(raw, decided)}"))

    def _why_left_out(self, raw: bytes, decided: Round | None) -> str:
        if raw and decided is None:
            return "the leader's round cannot be read: does it run another version?"
        if isinstance(self._feed.membership, Joined):
            return "a round was made without us"
        return "waiting for the leader to begin a round"

    async def _tell_news(self, session: ZooKeeperSession) -> None:
        news = encode_member(self._info)
        if news != self._told:
            await session.ask("set", f"{self._members_path}/{self._member_id}", news)
            self._told = news

    async def _lead(
        self, session: ZooKeeperSession, ids: Sequence[str], generation: int, decided: Round | None
    ) -> tuple[int, Round | None]:
        """Begin a round if something changed since the last one; the round that counts, and its generation."""
        infos: dict[str, MemberInfo | None] = {}
        for one in ids:
            with contextlib.suppress(NoNodeError):  # it left in between
                raw, _ = await session.ask("get", f"{self._members_path}/{one}", watch=session.watch)
                infos[one] = decode_member(raw)
        members = {one: info for one, info in infos.items() if info is not None}
        returned = not isinstance(self._feed.membership, Joined)  # and so has stepped down in the meantime
        if not (returned or self._round_wanted or self._is_due(infos.keys(), members, decided)):
            return generation, decided
        self._round_wanted = False  # a wish from now on is one for another round
        if len(members) < len(infos):
            log.warning("%s: %d members cannot be read and get nothing", self._where, len(infos) - len(members))
        assignments = self._assign(generation + 1, members)
        answers = {one: assignments.get(one) for one in infos}
        data = encode_round(Round(leader_id=self._member_id, members=members, answers=answers))
        return await self._write(session, generation, data), decode_round(data)  # as everybody else will read it

    def _is_due(self, ids: Set[str], members: Mapping[str, MemberInfo], decided: Round | None) -> bool:
        return (
            decided is None
            or decided.leader_id != self._member_id
            or decided.answers.keys() != ids
            or _news(decided.members) != _news(members)
        )

    async def _write(self, session: ZooKeeperSession, generation: int, data: bytes) -> int:
        """Make the next generation, and return its number."""
        if len(data) > MOST_BYTES:
            raise SessionOver(f"a round of {len(data)} bytes is more than ZooKeeper takes ({MOST_BYTES})")
        own = f"{self._members_path}/{self._member_id}"
        try:
            return await session.write_if(own, self._round_path, data, generation)
        except NotConnected:
            self._round_wanted = True  # whether it was written, nobody knows; a second round does no harm
            raise
        except NoNodeError:
            raise SessionOver("our member znode is gone: somebody else leads") from None
        except BadVersionError:
            raise SessionOver(f"round {generation + 1} was made by somebody else") from None

    def _join(self, generation: int, decided: Round) -> None:
        self._trouble = ""
        self._feed.say(
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
        return f"{self._where}: no contact: {self._trouble or 'the servers do not answer'}. {_LOOK_AT_SERVERS}"

    @property
    def _where(self) -> str:
        return f"election {self._settings.path} on ZooKeeper {','.join(self._settings.servers)}"


def _news(members: Mapping[str, MemberInfo]) -> dict[str, MemberInfo]:
    """What members say, without what follows from the rounds themselves and so would make rounds without end."""
    return {one: replace(info, epoch=-1) for one, info in members.items()}


def _age(member_id: str) -> tuple[int, str]:
    """Older members first, by ZooKeeper's number. What has none was not made by us and comes last."""
    number = member_id.rpartition("-")[2]
    return (int(number), member_id) if number.isdecimal() else (2**31, member_id)


def _explained(error: Exception) -> str:
    name = type(error).__name__
    if isinstance(error, NoAuthError):
        return f"{name}: we may not read or write there: its znodes belong to another user. {LOOK_AT_IDENTITY}"
    if isinstance(error, SessionClosedRequireSaslError):
        return f"{name}: the servers demand that we authenticate by SASL. {LOOK_AT_IDENTITY}"
    return f"{name} {error}".strip()
