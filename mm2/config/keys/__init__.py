"""Declarations of keys: name, type, default, documentation and update mode.

Keys of clients are in `mm2.config.clients`, security keys in `mm2.config.security`; `mm2.config.checks.key_scopes`
defines the prefixes that a key can have.
"""
