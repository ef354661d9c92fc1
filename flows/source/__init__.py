"""Fetching from the source cluster."""
