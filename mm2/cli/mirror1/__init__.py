"""``kafka-mirror-maker``, with the command line of MirrorMaker 1, and ``mm2 migrate-mm1``."""
