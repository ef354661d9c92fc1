"""Running a node: in the foreground or as a daemon, and its log."""
