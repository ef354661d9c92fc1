"""``kafka-consumer-offset-checker``: the offsets, lag and owners of a consumer group, as ConsumerOffsetChecker did."""
