"""Endpoints for lanes, the engine and other nodes, and requests to other nodes."""
