"""Endpoints for monitoring, people and operators, and their JSON."""
