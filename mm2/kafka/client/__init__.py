"""A client of one cluster: metadata, leaders, coordinators, offsets and fetch sessions."""
