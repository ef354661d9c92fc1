"""Decoders under random bytes: ``make fuzz SECONDS=n``, and some cases of each in the fast tests.

`targets` has the decoders with valid encodings and the errors that they declare, `mutations` what is done to these, and
`cases` runs one with limits on time and memory. A case is a number: with the name of its target it always has the same
bytes.
"""
