"""Exactly-once: the transactions in which a source task writes records, source offsets and exact offsets (KIP-618)."""
