"""A module in the directory of the file, which is not on the import path."""
