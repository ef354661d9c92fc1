"""The replication of one partition: a state machine without I/O or clock."""
