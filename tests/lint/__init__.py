"""Checks of `make lint` that no tool has."""
