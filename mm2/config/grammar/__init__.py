"""Parsing of properties files: syntax, lines, config providers, Java's value types, secrets and problems.

The meaning of keys is in `mm2.config.keys`.
"""
