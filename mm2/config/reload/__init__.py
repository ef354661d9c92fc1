"""Reload of the configuration: what changed, how it takes effect, and whether the nodes of a flow agree.

Watching the files is done by `mm2.node.reload`.
"""
