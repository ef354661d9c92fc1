"""SQL flows: records as rows of a Spark query (docs/adr/0015-sql-flows.md)."""
