"""Commands that use the REST interface of a running node."""
