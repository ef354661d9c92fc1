"""Reads `mm2.properties` into typed settings and reports every problem with file and line.

docs/reference/configuration.md describes the file.

`load.load` is the entry point. Nothing in this package connects to a cluster.
"""
