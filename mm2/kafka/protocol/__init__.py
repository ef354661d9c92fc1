"""Kafka requests and responses that aiokafka lacks, and error codes. `mm2.kafka.client` sends them."""
