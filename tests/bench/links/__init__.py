"""Copying over a long link: real TCP between network namespaces, with a round trip, a rate and losses.

``python -m tests.bench.links`` needs root and Linux: it makes two namespaces and removes them afterwards.
"""
