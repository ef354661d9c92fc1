"""REST interface of a node: public endpoints, signed calls between nodes, and metrics (docs/reference/rest.md)."""
