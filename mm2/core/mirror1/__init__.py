"""MirrorMaker 1 (kafka.tools.MirrorMaker, in Kafka until 3.9): its settings, and the rules of its consumer group."""
