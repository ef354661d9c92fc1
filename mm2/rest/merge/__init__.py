"""The state of a flow, merged from all of its nodes."""
