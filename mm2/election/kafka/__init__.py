"""Election by Kafka's group membership protocol."""
