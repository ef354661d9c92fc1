"""The decoders of what others write, with valid encodings and the errors that they declare."""

from __future__ import annotations

import json
import lzma
import random
import struct
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any
from uuid import UUID

from pydantic import TypeAdapter

from flows.batch.blob import batches
from flows.batch.choice import BatchRules
from flows.batch.decoded import MAX_RECORD, RecordTooLargeError
from flows.batch.header import BatchTooLargeError, CorruptBatchError
from flows.batch.old_formats import convert
from flows.batch.pack import cut, pack, repack, split
from flows.batch.record_reader import read_record
from flows.batch.steps import finish
from flows.batch.target_batch import ProducerId, SourceBatch
from flows.partition.frames_in_query import FrameInQuery
from flows.routing.partition_router import records
from flows.source.completed_fetch import read_completed_fetch
from flows.sql.frames import Frame
from flows.sql.query_stage import record_at, single_batch
from flows.sql.rows import RowBuilder
from mm2.config.security.jaas import JaasError
from mm2.config.security.jaas import parse as parse_jaas
from mm2.config.security.kerberos.login import principals
from mm2.config.security.tls.formats.der import DerError
from mm2.config.security.tls.formats.der import parse as parse_der
from mm2.config.security.tls.formats.jks import read_jks
from mm2.config.security.tls.formats.key_store import StoreError
from mm2.config.security.tls.formats.pkcs12 import read_pkcs12
from mm2.core.assignment.source_task_releases import SourceTaskRelease, decode_release
from mm2.core.coordination.skips import NO_SKIPS, decode_skips, encode_skips
from mm2.core.kerberos.ticket_cache import read_ticket_cache
from mm2.core.lanes.losses import Loss, decode_loss, encode_loss, encode_loss_key
from mm2.core.lanes.partition_steps import PartitionStory
from mm2.core.naming.names import TopicPartition
from mm2.core.oauth.messages import broker_error
from mm2.core.oauth.tokens import TokenInvalid, encode, read_jwt, token_of_response
from mm2.core.offsets.copied_ranges import CopiedRange, CopiedUpTo
from mm2.core.offsets.exact_offset_records import Segment, TopicIds, decode_segment
from mm2.core.offsets.exact_offsets import ExactOffsets
from mm2.core.offsets.packed_ranges import PackedRanges, read_packed
from mm2.core.offsets.segment_index import SegmentNotLoaded
from mm2.core.positions.forms import PositionsInvalidError, parse_positions
from mm2.core.settings.client import IsolationLevel, SecurityProtocol
from mm2.core.wire.broker_registrations import decode_broker_address
from mm2.core.wire.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from mm2.core.wire.formats import Checkpoint, FormatError, Heartbeat, OffsetSync
from mm2.election.kafka.group_messages import GroupAnswer, decode_answer, decode_member, encode_answer
from mm2.election.protocol import MemberInfo
from mm2.election.zookeeper.zookeeper_election import decode_member_znode, decode_round, encode_member_znode
from mm2.kafka.decompression import Codec, DecompressionError, OutputTooLargeError, decompress
from mm2.kafka.errors import BrokerError
from mm2.kafka.logs.stored_records import decode as decode_stored
from mm2.kafka.protocol.fetch_request import BY_ID, CHECKS_EPOCHS, FetchedPartition, FetchRequest
from mm2.kafka.protocol.raw_request import RawRequest
from mm2.kafka.protocol.schema import encoder
from mm2.rest.merge.cluster_view import UnreadableShareError
from mm2.rest.merge.group_merge import GroupsUnreadableError, read_groups
from mm2.rest.public.flows import SHARE as FLOW_SHARE
from mm2.rest.public.partitions import STORY
from tests.contract.samples import flow, member, node, topic
from tests.fuzz.mutations import NUMBERS
from tests.lab.batches import ABORT, HEADER, LOG_APPEND_TIME, TRANSACTIONAL, Batch, Record, marker, sealed
from tests.lab.old_formats import GZIP, LZ4, SNAPPY, message, wrapper
from tests.property.test_foreign_json import DECODERS, VALID
from tests.unit.config.security.tls.formats.golden import STORE_PASSWORD, STORES
from tests.unit.core.kerberos.formats import cache_of, keytab_of

Bytes = Callable[[random.Random, bytes], bytes]


def _as_it_is(_: random.Random, data: bytes) -> bytes:
    return data


@dataclass(frozen=True, kw_only=True)
class Target:
    """A decoder. ``prepare``: makes changed bytes look right, so that they are not rejected at the first check."""

    decode: Callable[[bytes], object]
    seeds: tuple[bytes, ...]
    errors: tuple[type[Exception], ...] = ()
    prepare: Bytes = _as_it_is


# -- batches

_CORRUPT = (CorruptBatchError, BatchTooLargeError)
_UNROUTED = (*_CORRUPT, RecordTooLargeError)
_RECORDS = [
    Record(3, 1_700_000_000_000, b"key", b"value", (("name", b"1"), ("other", None))),
    Record(4, 1_700_000_000_070, None, b"x" * 300),
    Record(6, 1_699_999_999_000, b"", None),
]
_BATCHES = tuple(
    Batch(records=_RECORDS, codec=codec, attributes=attributes).encode()
    for codec in Codec
    for attributes in (0, LOG_APPEND_TIME, TRANSACTIONAL)
)
_CONTIGUOUS = tuple(
    Batch(records=[Record(number, number * 1_000, b"k", b"v" * 20) for number in range(3, 30)], codec=codec).encode()
    for codec in Codec
)
_OLD = tuple(
    message(3, b"k", b"v" * 40, magic=magic, timestamp=5) + message(5, None, b"w", magic=magic, timestamp=6)
    for magic in (0, 1)
)
_WRAPPED = tuple(
    wrapper(inside, codec, magic=magic, offset=5) for magic, inside in enumerate(_OLD) for codec in (GZIP, SNAPPY, LZ4)
)
_TINY = Batch(records=[Record(0, 2**62, b"k", b"v")]).encode()


def _seal(rng: random.Random, data: bytes) -> bytes:
    """Correct length and checksum of a batch, and mostly its magic; sometimes change a timestamp, or a count."""
    if len(data) < HEADER.size:
        return data
    fields = list(HEADER.unpack_from(data))
    fields[1] = len(data) - 12
    if rng.random() < 0.9:
        fields[3] = 2
    if rng.random() < 0.3:
        at, number = rng.choice((0, 6, 7, 7, 8, 9, 12)), rng.choice(NUMBERS)
        fields[at] = number if at in (0, 7, 8, 9) else number % (1 << 31)
    return sealed(bytearray(data), fields)


_TOPIC_ID = UUID(int=7)


def _fetched(data: bytes) -> FetchedPartition:
    return FetchedPartition("t", 0, 0, 100, 100, 0, ((7, 3), (-1, 0)), -1, data)


def _fetch_request(version: int) -> RawRequest:
    names = {_TOPIC_ID: "t"} if version >= BY_ID else None
    isolation = IsolationLevel.READ_COMMITTED
    request = FetchRequest(partitions={}, names=names, max_wait_ms=1, min_bytes=1, max_bytes=1, isolation=isolation)
    return request.prepare({FetchRequest.API_KEY: (version, version)})


def _fetch_response(version: int) -> bytes:
    is_flexible = version >= CHECKS_EPOCHS
    partitions = [
        (number, 0, 100, 100, 0, [(7, 3)], -1, records, None) for number, records in enumerate((*_BATCHES[:2], b""))
    ]
    encoded = bytearray(b"\0\0\0\7\0" if is_flexible else b"\0\0\0\7")
    encode = encoder(FetchRequest._response, version, flexible=is_flexible)
    encode(encoded, (0, 0, 7, [("t", _TOPIC_ID, partitions)]))
    return bytes(encoded)


def _pack(data: bytes) -> None:
    rules = BatchRules(merged_bytes=10_000)
    for limit, wanted in ((None, 0), (100, 4)):
        queue = deque(
            SourceBatch(header, raw, header.next_offset, header.size, 0.0)
            for header, raw in batches(_TINY + data, check_crcs=False)
        )
        repeated = queue.copy()
        while queue:
            try:
                made = finish(pack(queue, wanted, rules, limit, Counter())).batches
            except _CORRUPT:
                queue.popleft()
                continue
            for batch in made:
                batch.sequence = 0
                batch.stamp(ProducerId(7, 0))
                with suppress(*_CORRUPT):
                    finish(split(batch, 100, rules))
                if batch.count > 1:
                    with suppress(*_CORRUPT):
                        finish(cut(batch, [1], rules))
        with suppress(*_CORRUPT):
            finish(repack(repeated, wanted, 5, rules, Counter()))


def _convert(data: bytes) -> None:
    for header, raw in batches(data, check_crcs=False):
        if header.magic < 2:
            convert(header, raw, limit=1 << 20, check_crcs=False, now_ms=5)


_LIMITS = (MAX_RECORD, 300)
"""Of one record, in bytes. With the second one, batches are cut between records, as are large ones with the first."""


def _rows(data: bytes) -> None:
    """Make rows for a query, which have no other errors than those in the rows."""
    for max_record in _LIMITS:
        rows = RowBuilder()
        for made in (*rows.add(Frame(1, 4, "t", 0, data, max_record), arrived_ms=5), *rows.take()):
            made.validate(full=True)


def _frame(data: bytes) -> FrameInQuery:
    fetched = [
        SourceBatch(header, raw, header.next_offset, header.size, 0.0)
        for header, raw in batches(data, check_crcs=False)
    ]
    return FrameInQuery(1, 4, fetched)


def _route(data: bytes) -> None:
    frame = _frame(data)
    for max_record in _LIMITS:
        with suppress(*_UNROUTED):
            for _ in records(_PARTITION, frame, frame.start, max_record):
                pass


def _select_one(data: bytes) -> None:
    """Make a batch of each record alone, as if a query had failed for it, and read it again."""
    frame = _frame(data)
    for one in islice(records(_PARTITION, frame, frame.start, MAX_RECORD), 20):
        alone = single_batch(*record_at(frame, one.offset, MAX_RECORD))
        (again,) = records(_PARTITION, _frame(alone), one.offset, MAX_RECORD)
        assert again.offset == one.offset


# -- internal topics

_PARTITION = TopicPartition("topic", 3)
_RANGES = [CopiedRange(number * 11, number * 12, 10, 1) for number in range(1, 60)]
_PACKED = PackedRanges.of(_RANGES)


def _use_packed(data: bytes) -> None:
    packed = read_packed(data)
    list(zip(range(100_000), packed.ranges(), strict=False))
    if packed.upstream < packed.upstream_end:
        packed.find(packed.upstream)
        packed.find(packed.upstream_end - 1)
        packed.before(packed.upstream + 1)
    packed.extended([CopiedRange(packed.upstream_end, packed.downstream_end, 1)])


_SEGMENT = Segment(
    topic_partition=_PARTITION,
    sequence=1,
    era=2,
    topic_ids=TopicIds(),
    before=CopiedUpTo(1, 2, 4),
    through=800,
    ranges=tuple(_RANGES[:3]),
    packed=_PACKED,
)


def _use_map(key: bytes, value: bytes) -> None:
    """Apply a record between others, and look positions up: a damaged segment is no error for those who ask."""
    offsets = ExactOffsets()
    others = [replace(_SEGMENT, sequence=sequence, ranges=_SEGMENT.ranges, packed=None) for sequence in (1, 3)]
    offsets.apply_record(others[0].key(), others[0].value(), 0)
    try:
        offsets.apply_record(key, value, 1)
    finally:
        offsets.apply_record(others[1].key(), others[1].value(), 2)
        for partition in list(offsets.partitions):
            for upstream in (0, 500, 2**40):
                with suppress(SegmentNotLoaded):
                    offsets.look_up(partition, upstream)


def _key_and_value(decode: Callable[[bytes, bytes], object]) -> Callable[[bytes], object]:
    """Return a decoder of both in one: a length before the key, and the value."""

    def both(data: bytes) -> object:
        length = int.from_bytes(data[:2], "big")
        return decode(data[2 : 2 + length], data[2 + length :])

    return both


def _joined(key: bytes, value: bytes) -> bytes:
    return struct.pack(">H", len(key)) + key + value


_OFFSET_SYNC = OffsetSync(topic_partition=_PARTITION, upstream_offset=7, downstream_offset=5)
_CHECKPOINT = Checkpoint(group="g", topic_partition=_PARTITION, upstream_offset=7, downstream_offset=5, metadata="m")
_LOSS = Loss(topic="t", partition=0, first=3, until=9, reason="r", kind="skipped", time=5, count=2, lost=4, stops="s")
_RELEASE = SourceTaskRelease(source_task=0, producer_id=7, epoch=1)
_GROUPS = b'{"reasons":["r"],"groups":[{"group":"g"},{"group":"h"}]}'
_OTHER = member("node-2", "http://two:8083")
_HEARTBEAT = Heartbeat(source="A", target="B", timestamp_ms=5)
_JSON = (
    json.dumps(VALID).encode(),
    json.dumps(["MirrorSourceConnector", {"cluster": "A", "partition": 0, "topic": "t"}]).encode(),
    b'{"offset":7}',
    *(json.dumps({name: value}).encode() for name, value in VALID.items()),
)

# -- groups, logins, stores

_MEMBER = MemberInfo(node_id="one", url="http://one", capacity=2, kinds=("K",), tasks=("a", "b"), version="1")
_ANSWER = GroupAnswer(leader_id="m", members={"m": _MEMBER}, assignment={"a": [1, 2]})
_ANSWER_JSON = lzma.decompress(encode_answer(_ANSWER)[1:])
_TOKEN = ".".join((encode({"alg": "none"}), encode({"exp": 2_000_000_000, "iat": 1, "sub": "mm2"}), "c2ln"))
_STORES = {suffix: tuple(path.read_bytes() for path in sorted(STORES.glob(f"*.{suffix}"))) for suffix in ("jks", "p12")}
_REGISTRATION = json.dumps(
    {
        "version": 4,
        "host": "b1",
        "port": 9092,
        "endpoints": ["INTERNAL://b1:9093", "PLAINTEXT://b1:9092"],
        "listener_security_protocol_map": {"INTERNAL": "SSL", "PLAINTEXT": "PLAINTEXT"},
    }
).encode()


def _text(decode: Callable[[str], object]) -> Callable[[bytes], object]:
    return lambda data: decode(data.decode("utf-8", "surrogateescape"))


_POSITIONS: tuple[Any, ...] = (
    {"orders": {"0": 123, "1": -2}, "users": {"0": 0}},
    {"offsets": [{"partition": {"kafka_topic": "t", "kafka_partition": 0}, "offset": {"kafka_offset": 5}}]},
    {"offsets": [{"partition": {"cluster": "A", "topic": "t", "partition": 0}, "offset": {"offset": 5}}]},
)


def _json_target(decode: Callable[[bytes], Any]) -> Target:
    return Target(decode=decode, seeds=_JSON, errors=(FormatError,))


TARGETS: dict[str, Target] = {
    "blob": Target(
        decode=lambda data: list(batches(data, check_crcs=False)), seeds=(*_BATCHES, *_OLD, *_WRAPPED), errors=_CORRUPT
    ),
    "completed fetch": Target(
        decode=lambda data: read_completed_fetch(_fetched(data), 3, check_crcs=False, arrived=0.0),
        seeds=(*_BATCHES, *_OLD, *_WRAPPED, marker(5, 7, ABORT)),
    ),
    "completed fetch with checksums": Target(
        decode=lambda data: read_completed_fetch(_fetched(data), 3, check_crcs=True, arrived=0.0),
        seeds=(*_BATCHES, marker(5, 7, ABORT)),
        prepare=_seal,
    ),
    "packing": Target(decode=_pack, seeds=(*_BATCHES, *_CONTIGUOUS), errors=_CORRUPT, prepare=_seal),
    "packing old formats": Target(decode=_pack, seeds=(*_OLD, *_WRAPPED), errors=_CORRUPT),
    "old formats": Target(decode=_convert, seeds=(*_OLD, *_WRAPPED), errors=_CORRUPT),
    "rows of a query": Target(decode=_rows, seeds=(*_BATCHES, *_CONTIGUOUS), prepare=_seal),
    "rows of a query in old formats": Target(decode=_rows, seeds=(*_OLD, *_WRAPPED)),
    "routed records": Target(decode=_route, seeds=(*_BATCHES, *_CONTIGUOUS), errors=_CORRUPT, prepare=_seal),
    "routed records in old formats": Target(decode=_route, seeds=(*_OLD, *_WRAPPED), errors=_CORRUPT),
    "failed records of a query": Target(
        decode=_select_one, seeds=(*_BATCHES, *_CONTIGUOUS), errors=_UNROUTED, prepare=_seal
    ),
    "record": Target(
        decode=lambda data: read_record(data, 2**63 - 1, 3), seeds=(_BATCHES[0][61:],), errors=(CorruptBatchError,)
    ),
    **{
        f"decompression of {codec.name.lower()}": Target(
            decode=lambda data, codec=codec: decompress(codec, data, 1 << 24),  # type: ignore[misc]
            seeds=tuple(raw[61:] for raw in (*_BATCHES, *_CONTIGUOUS) if raw[22] & 7 == codec),
            errors=(DecompressionError, OutputTooLargeError),
        )
        for codec in Codec
    },
    **{
        f"fetch response v{version}": Target(
            decode=_fetch_request(version).decode,
            seeds=(_fetch_response(version),),
            errors=(Exception,),  # whichever it is closes the connection: what counts is time and memory
        )
        for version in (4, 11, 12, 13)
    },
    "stored records": Target(
        decode=lambda data: decode_stored(data, _PARTITION, 3, aborted=((7, 3),), committed_only=True),
        seeds=(*_BATCHES, *_CONTIGUOUS, marker(5, 7, ABORT)),
        errors=(BrokerError,),
        prepare=_seal,
    ),
    "stored records in old formats": Target(
        decode=lambda data: decode_stored(data, _PARTITION, 3), seeds=(*_OLD, *_WRAPPED), errors=(BrokerError,)
    ),
    "packed ranges": Target(decode=_use_packed, seeds=(_PACKED.encode(),), errors=(FormatError,)),
    "exact offsets": Target(
        decode=_key_and_value(decode_segment), seeds=(_joined(_SEGMENT.key(), _SEGMENT.value()),), errors=(FormatError,)
    ),
    "exact offsets map": Target(
        decode=_key_and_value(_use_map),
        seeds=tuple(_joined(one.key(), one.value()) for one in (_SEGMENT, replace(_SEGMENT, sequence=2))),
        errors=(FormatError,),
    ),
    "offset sync": Target(
        decode=_key_and_value(OffsetSync.decode),
        seeds=(_joined(_OFFSET_SYNC.key(), _OFFSET_SYNC.value()),),
        errors=(FormatError,),
    ),
    "checkpoint": Target(
        decode=_key_and_value(Checkpoint.decode),
        seeds=(_joined(_CHECKPOINT.key(), _CHECKPOINT.value()),),
        errors=(FormatError,),
    ),
    "heartbeat": Target(
        decode=_key_and_value(Heartbeat.decode),
        seeds=(_joined(_HEARTBEAT.key(), _HEARTBEAT.value()),),
        errors=(FormatError,),
    ),
    "loss": Target(
        decode=_key_and_value(decode_loss),
        seeds=(_joined(encode_loss_key(_LOSS), encode_loss(_LOSS)),),
        errors=(FormatError,),
    ),
    "release": Target(
        decode=_key_and_value(decode_release), seeds=(_joined(_RELEASE.key(), _RELEASE.value()),), errors=(FormatError,)
    ),
    "skips": Target(
        decode=decode_skips, seeds=(encode_skips(NO_SKIPS.skip(_PARTITION, 7)), *_JSON), errors=(FormatError,)
    ),
    "positions": Target(
        decode=_text(lambda text: parse_positions(text, "A")),
        seeds=(b"orders:0:123\nusers:1:0\n", *(json.dumps(one).encode() for one in _POSITIONS)),
        errors=(PositionsInvalidError,),
    ),
    **{f"JSON: {name}": _json_target(decode) for name, decode in DECODERS.items()},
    "groups of another node": Target(
        decode=lambda data: read_groups(data, due=True), seeds=(_GROUPS,), errors=(GroupsUnreadableError,)
    ),
    "flow of another node": Target(
        decode=lambda data: FLOW_SHARE.read(data, _OTHER),
        seeds=(FLOW_SHARE.dump(node(node_id=_OTHER.node), flow(topic())),),
        errors=(UnreadableShareError,),
    ),
    "partition of another node": Target(
        decode=lambda data: STORY.read(data, _OTHER),
        seeds=(TypeAdapter(PartitionStory).dump_json(PartitionStory()),),
        errors=(UnreadableShareError,),
    ),
    "member metadata": Target(decode=decode_member, seeds=_JSON),
    "group answer": Target(decode=decode_answer, seeds=(encode_answer(_ANSWER),)),
    "JSON of a group answer": Target(
        decode=lambda data: decode_answer(b"\x01" + lzma.compress(data)), seeds=(_ANSWER_JSON, *_JSON)
    ),
    "member znode": Target(decode=decode_member_znode, seeds=(encode_member_znode(_MEMBER, None), *_JSON)),
    "rebalance znode": Target(decode=decode_round, seeds=_JSON),
    "broker registration": Target(
        decode=lambda data: decode_broker_address(data, SecurityProtocol.SSL),
        seeds=(_REGISTRATION,),
        errors=(FormatError,),
    ),
    "subscription": Target(
        decode=decode_subscription, seeds=(encode_subscription(["a", "topic"]),), errors=(FormatError,)
    ),
    "assignment": Target(
        decode=decode_assignment,
        seeds=(encode_assignment([_PARTITION, TopicPartition("t", 0)]),),
        errors=(FormatError,),
    ),
    "JWT": Target(decode=_text(read_jwt), seeds=(_TOKEN.encode(),), errors=(TokenInvalid,)),
    "claims of a JWT": Target(
        decode=_text(lambda text: read_jwt(f"e30.{text}.e30")),
        seeds=tuple(part.encode() for part in _TOKEN.split(".")),
        errors=(TokenInvalid,),
    ),
    "token response": Target(
        decode=_text(token_of_response), seeds=(b'{"access_token":"a","expires_in":5}',), errors=(TokenInvalid,)
    ),
    "OAuth error of a broker": Target(decode=broker_error, seeds=(b'{"status":"invalid_token","scope":"s"}',)),
    "keytab": Target(decode=principals, seeds=(keytab_of("mm2/host@REALM", "x@R"),), errors=(FormatError,)),
    "ticket cache": Target(
        decode=read_ticket_cache, seeds=(cache_of("mm2@REALM", "krbtgt/REALM@REALM"),), errors=(FormatError,)
    ),
    "DER": Target(decode=parse_der, seeds=_STORES["p12"], errors=(DerError,)),
    "JKS": Target(decode=lambda data: read_jks(data, None), seeds=_STORES["jks"], errors=(StoreError,)),
    "PKCS12": Target(decode=lambda data: read_pkcs12(data, STORE_PASSWORD), seeds=_STORES["p12"], errors=(StoreError,)),
    "JAAS": Target(
        decode=_text(parse_jaas),
        seeds=(b'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p\\"";',),
        errors=(JaasError,),
    ),
}
