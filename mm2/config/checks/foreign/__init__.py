"""Recognition of files of other programs (Kafka Connect, MirrorMaker 1, Strimzi, Kubernetes) and of other formats."""
