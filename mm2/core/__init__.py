"""The domain: pure functions and state machines on values.

Standard library only; no asyncio, clock, random, logging or I/O. The interfaces that users implement, `policies` and
`plugins`, stay at this level because users' classes import them by these names.
"""
