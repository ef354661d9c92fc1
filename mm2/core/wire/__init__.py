"""Byte formats shared with Java MirrorMaker and Connect.

Formats that Java does not have are defined next to their values.
"""
