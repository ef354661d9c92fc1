"""Conversion of Java client properties (consumer, producer, admin) to the settings of our Kafka clients.

Security properties are in `mm2.config.security`.
"""
