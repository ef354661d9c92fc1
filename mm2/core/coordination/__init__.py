"""What the nodes of a flow exchange: session keys, signed requests, commands, pauses and config fingerprints."""
