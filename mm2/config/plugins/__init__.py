"""Replication policies, filters and admins named in the file: loading users' classes, and the built-in filters."""
