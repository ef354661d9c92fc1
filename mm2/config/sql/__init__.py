"""SQL flows in the file: which query applies to which topic, and the check of queries without Spark.

Only `mm2.config.sql.query_parser` and the modules that it imports need sqlglot. They are imported for the first query
of a file, so that flows without queries never load them.
"""
