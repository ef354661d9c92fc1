"""One running node: what it runs, and what it shows."""
