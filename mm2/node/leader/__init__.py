"""The leader of a flow: discovery, remote topics, assignment, topic syncs, and publishing to the other nodes."""
