"""Producing to the target cluster."""
