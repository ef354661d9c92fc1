"""Detection of changes to the properties file, and their application to a running node."""
