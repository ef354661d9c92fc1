"""Decides whether a batch is passed through, or re-batched for one of a few reasons.

Passing through is correct only if every record keeps its order, timestamp and bytes without decoding, and fast only if
the batch is not tiny.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from flows.batch.codecs import codec_named
from flows.batch.header import HEADER_BYTES, LOG_APPEND_TIME, MAGIC, BatchHeader
from mm2.core.settings.client import FetchSettings, ProduceSettings
from mm2.kafka.decompression import Codec


class Reason(StrEnum):
    """Why a batch is re-encoded (metric label ``reason``); PASS_THROUGH: it is not."""

    PASS_THROUGH = ""
    LOG_APPEND_TIME = "log-append-time"  # producers may not send append times, so each record gets the batch's
    BEFORE_START = "before-start"  # the batch starts before the first offset wanted
    HOLES = "holes"  # compaction removed records; a producer's batch must be contiguous
    CODEC = "codec"  # compression.type requires another codec, or the target does not support this one
    TOO_LARGE = "too-large"  # the target rejected one of this size: split
    OLD_FORMAT = "old-format"  # a message format from before Kafka 0.11: converted
    TINY = "tiny"  # one of several small ones, merged


TINY_BYTES = 16 * 1024
TINY_RECORDS = 100
"""Batches up to both sizes are merged if more of them wait. A partition can send one batch per request, so every batch
costs a request: about 150 µs of CPU here and as much at the broker. Rewriting 100 records costs about as much, and so
does decompressing, copying and compressing 16 KiB."""

MERGED_BYTES = 128 * 1024
"""A run of tiny batches is merged up to this many stored bytes: at that size a request costs a hundredth of what its
records cost, and the batch is still an eighth of what a broker accepts by default (message.max.bytes)."""

MERGED_RECORDS = 10_000
"""A run of tiny batches is merged up to this many records, which takes about 30 ms: beyond that, a request costs a
hundredth of what the records cost, however small they are."""

COMMON_RATIO = 8
"""Text compresses about this well, and few records compress better. Tiny batches are merged up to this many
uncompressed bytes for each stored byte of a merged batch; beyond that, passing them through costs less than
decompressing them."""

MAX_UNCOMPRESSED = 16 * 1024 * 1024
"""A batch that has to be rebuilt may have this many uncompressed bytes, or as many as max.request.size or
max.partition.fetch.bytes if one of them is larger. Java's producer fills a batch up to max.request.size (by default a
sixteenth of this) *before* compression, so few batches come near the limit. Rebuilding takes up to four times the
uncompressed bytes for a moment, which is as much as a lane may hold by default (mm2.lane.buffer.bytes)."""

SUPPORTED_CODEC = Codec.LZ4
"""Replaces a codec that the target does not support: every broker that stores format v2 supports it, and it costs the
least CPU. Only zstd can be unsupported (brokers before 2.1, KIP-110)."""

UNLIMITED = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRules:
    """How a flow's settings shape batches. ``codec`` None keeps the source's codec; sizes are in bytes.

    ``unsupported`` are codecs that the target rejected. ``max_uncompressed``: larger batches are not rebuilt, unless
    they are stored in more bytes than that. ``check_crcs``: of messages inside compressed ones of an old format.
    """

    codec: Codec | None = None
    level: int | None = None
    unsupported: frozenset[int] = frozenset()
    tiny_bytes: int = TINY_BYTES
    tiny_records: int = TINY_RECORDS
    merged_bytes: int = MERGED_BYTES
    max_uncompressed: int = MAX_UNCOMPRESSED
    check_crcs: bool = True


LONG_LINK_BATCH_BYTES = 1024 * 1024
"""Over a long link a partition copies (batches in flight) x (bytes per batch) per round trip, however fast both
ends are. There batches up to half this size are merged up to this size: what a broker accepts by default."""

RECORD_GROWTH = 2
"""Bytes by which a record can grow when its batch is merged with others: its distances to the first record's offset and
time become longer numbers."""


def rules_from(settings: ProduceSettings, fetch: FetchSettings) -> BatchRules:
    """Return the rules of a flow: a batch.size above our default merges further, up to max.request.size."""
    return BatchRules(
        codec=None if settings.compression_type is None else codec_named(settings.compression_type),
        level=settings.compression_level,
        merged_bytes=max(HEADER_BYTES, min(max(MERGED_BYTES, settings.batch_size), settings.max_request_size)),
        max_uncompressed=max(MAX_UNCOMPRESSED, settings.max_request_size, fetch.max_partition_bytes),
        check_crcs=fetch.check_crcs,
    )


def for_long_link(rules: BatchRules) -> BatchRules:
    """Return the rules for a target with a long round-trip time."""
    merged = max(rules.merged_bytes, LONG_LINK_BATCH_BYTES)
    return replace(rules, merged_bytes=merged, tiny_bytes=merged // 2, tiny_records=MERGED_RECORDS)


def reason_for(header: BatchHeader, wanted: int, rules: BatchRules, limit: int | None) -> Reason:  # noqa: PLR0911
    """Return why this batch cannot be passed through; ``limit``: the target rejected batches not much larger."""
    if header.magic != MAGIC:
        return Reason.OLD_FORMAT
    if header.attributes & LOG_APPEND_TIME:
        return Reason.LOG_APPEND_TIME
    if header.base_offset < wanted:
        return Reason.BEFORE_START
    if header.has_holes:
        return Reason.HOLES
    if header.codec in rules.unsupported or (rules.codec is not None and header.codec != rules.codec):
        return Reason.CODEC
    if limit is not None and header.size > limit:
        return Reason.TOO_LARGE
    return Reason.PASS_THROUGH


def merge_limit(rules: BatchRules, limit: int | None) -> int:
    """Return the maximum stored bytes of the source batches in one merged batch."""
    return rules.merged_bytes if limit is None else min(rules.merged_bytes, limit)


def is_tiny(header: BatchHeader, rules: BatchRules) -> bool:
    """Return whether the batch should be merged with adjacent batches that are tiny too."""
    return header.size <= rules.tiny_bytes and header.record_count <= rules.tiny_records


def new_codec(codecs: Iterable[int], rules: BatchRules) -> int:
    """Return the codec of a batch rebuilt from batches with ``codecs``: the first that compresses.

    (Producers send a batch uncompressed if compression does not make it smaller, which is common for tiny batches.)
    """
    if rules.codec is not None:
        return rules.codec
    found = next((codec for codec in codecs if codec), Codec.NONE)
    return SUPPORTED_CODEC if found in rules.unsupported else found
