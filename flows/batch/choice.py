"""How a batch is copied: passed through, or re-batched for one of a few reasons.

Passing through is right only if every record keeps its order, timestamp and bytes without anybody looking inside, and
fast only if the batch is not tiny.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from flows.batch.codecs import Codec, codec_named
from flows.batch.header import HEADER_BYTES, LOG_APPEND_TIME, BatchHeader
from mm2.core.client_settings import ProduceSettings


class Reason(StrEnum):
    """Why a batch is decoded and built anew (metric label ``reason``). PASS_THROUGH is not to."""

    PASS_THROUGH = ""
    LOG_APPEND_TIME = "log-append-time"  # a producer may not send append times: each record gets the batch's
    BEFORE_START = "before-start"  # the batch begins before the first offset wanted
    HOLES = "holes"  # compaction took records out; a producer's batch must be contiguous
    CODEC = "codec"  # compression.type asks for another codec
    TOO_LARGE = "too-large"  # the target refused one of this size: split
    TINY = "tiny"  # one of several small ones, merged


TINY_BYTES = 16 * 1024
TINY_RECORDS = 100
"""Batches up to this size in both are merged if more of them wait. A partition can send one batch a request, so every
batch of its own costs a request, about 150 µs of CPU here and as much at the broker; to rewrite 100 records costs about
as much, and so does it to decompress, copy and compress 16 KiB."""

MERGED_BYTES = 128 * 1024
"""A run of tiny batches is merged up to this many stored bytes: by then a request costs a hundredth of what the records
inside cost, and the batch is still an eighth of what a broker accepts by default (message.max.bytes)."""


UNLIMITED = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRules:
    """What a flow's settings ask of batches. ``codec`` None keeps the source's; sizes are bytes."""

    codec: Codec | None = None
    level: int | None = None
    tiny_bytes: int = TINY_BYTES
    tiny_records: int = TINY_RECORDS
    merged_bytes: int = MERGED_BYTES


LONG_LINK_BATCH_BYTES = 512 * 1024
"""Over a long link a partition gets (batches in flight) x (bytes a batch) through in a round trip, however fast both
ends are. There everything up to half of this is merged up to this: half of what a broker accepts by default."""


def rules_from(settings: ProduceSettings) -> BatchRules:
    """batch.size above our own number merges further; max.request.size bounds it."""
    return BatchRules(
        codec=None if settings.compression_type is None else codec_named(settings.compression_type),
        level=settings.compression_level,
        merged_bytes=max(HEADER_BYTES, min(max(MERGED_BYTES, settings.batch_size), settings.max_request_size)),
    )


def for_long_link(rules: BatchRules) -> BatchRules:
    """The rules for a target that is many milliseconds away."""
    merged = max(rules.merged_bytes, LONG_LINK_BATCH_BYTES)
    return replace(rules, merged_bytes=merged, tiny_bytes=merged // 2, tiny_records=UNLIMITED)


def reason_for(header: BatchHeader, wanted: int, rules: BatchRules, limit: int | None) -> Reason:
    """Why this batch cannot pass through on its own; ``limit``: the target refused batches not much larger."""
    if header.attributes & LOG_APPEND_TIME:
        return Reason.LOG_APPEND_TIME
    if header.base_offset < wanted:
        return Reason.BEFORE_START
    if header.has_holes:
        return Reason.HOLES
    if rules.codec is not None and header.codec != rules.codec:
        return Reason.CODEC
    if limit is not None and header.size > limit:
        return Reason.TOO_LARGE
    return Reason.PASS_THROUGH


def merge_limit(rules: BatchRules, limit: int | None) -> int:
    """Stored bytes one merged batch may take from the source."""
    return rules.merged_bytes if limit is None else min(rules.merged_bytes, limit)


def is_tiny(header: BatchHeader, rules: BatchRules) -> bool:
    """Whether the batch is better merged with its neighbours, if they are tiny too."""
    return header.size <= rules.tiny_bytes and header.record_count <= rules.tiny_records


def merged_codec(codecs: Iterable[int], rules: BatchRules) -> int:
    """The codec of several batches merged: the first that compresses. (Producers leave a batch uncompressed that does
    not get smaller by it, as tiny ones often do not.)"""
    return rules.codec if rules.codec is not None else next((codec for codec in codecs if codec), Codec.NONE)
