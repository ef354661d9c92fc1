"""One lane: its lease from the node, its byte budget, and the source tasks it runs."""
