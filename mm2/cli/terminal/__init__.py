"""Terminal output: tables, live views and JSON."""
