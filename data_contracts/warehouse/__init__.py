"""The DuckDB file of metrics: schema, rows, every SQL statement."""
