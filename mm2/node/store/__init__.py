"""Internal topics as stores: configs, status and worker topics.

Byte formats are in `mm2.core`.
"""
