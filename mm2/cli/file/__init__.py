"""Commands that only read the properties file."""
