"""Command line: a table of commands, one module for each, and their exit codes."""
