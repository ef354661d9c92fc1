"""One flow on one node: its supervisor, its session with the clusters, and the host of its tasks."""
