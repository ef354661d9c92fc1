"""Java regular expressions, compiled by the `regex` package."""
