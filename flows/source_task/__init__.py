"""One source task: applies its lease and reports its progress."""
