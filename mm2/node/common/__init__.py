"""Small helpers used throughout the node."""
