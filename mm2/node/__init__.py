"""One running node: its flows, its Spark engine and its state.

REST endpoints are in `mm2.rest`; the data plane is in `flows`.
"""
