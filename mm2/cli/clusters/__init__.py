"""Commands that read from the clusters, without a node."""
