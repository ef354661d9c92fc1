"""``make demo``: two real brokers, a node, a writer, and a live table of what is being replicated."""
