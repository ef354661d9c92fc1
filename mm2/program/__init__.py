"""A node as an operating system process: signals, listeners, logging and exit codes.

`mm2.node` implements the node; `mm2.rest` implements what its listeners serve.
"""
