"""Commands that operators give to a flow: one module each, listed in `registry.COMMANDS`.

A module defines the command with its arguments, the request that creates it, and its effect.
"""
