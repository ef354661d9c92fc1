"""The node's side of the Spark engine: its process, the state of its lanes, and the lease service that they call."""
