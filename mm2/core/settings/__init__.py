"""Typed settings that `mm2.config` produces and other packages consume.

`mm2.config` parses and validates property values.
"""
