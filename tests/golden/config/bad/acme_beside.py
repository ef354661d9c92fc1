"""A module beside a file, where it is not looked for."""
