"""Checks of the whole file: unknown keys, keys without effect, Spark, loops, aliases of the same cluster."""
