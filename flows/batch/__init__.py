"""Record batches (format v2): headers, codecs, pass-through and re-batching. No I/O."""
