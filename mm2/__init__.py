"""MirrorMaker 2 in Python: replicates topics between Kafka clusters, its data pipeline on Spark."""
