"""Where partitions start, as the leader stores it: under ``latest``, and when an operator has them copied again."""
