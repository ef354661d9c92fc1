"""Segments of the exact map in the form in which a reader of its topic keeps them."""

from __future__ import annotations

from mm2.core.offsets.exact_offset_records import Segment
from mm2.core.offsets.segment_index import SegmentEntry


def entry_of(segment: Segment, *, place: int) -> SegmentEntry:
    """Return the entry in the index of a segment whose record is at offset ``place`` of the topic."""
    parts = [*(() if segment.packed is None else (segment.packed,)), *segment.ranges]
    reach, clean, end = segment.before, not segment.before.doubt, -1
    if segment.packed is not None:
        clean = clean and segment.packed.follows(reach)
        reach = segment.packed.progress_after(reach)
        end = segment.packed.upstream_end
    for copied in segment.ranges:
        clean = clean and copied.upstream >= reach.upstream and not 0 <= end < copied.upstream - copied.hole
        reach = reach.after(copied)
        clean = clean and not reach.doubt
        end = copied.upstream_end
    return SegmentEntry(
        place=place,
        sequence=segment.sequence,
        era=segment.era,
        size=1,
        before=segment.before,
        upstream=min((one.upstream for one in parts), default=-1),
        downstream=parts[0].downstream if parts else -1,
        upstream_end=max((one.upstream_end for one in parts), default=-1),
        downstream_end=parts[-1].downstream_end if parts else -1,
        truncated=segment.truncated,
        topic_ids=segment.topic_ids,
        clean=clean,
    )
