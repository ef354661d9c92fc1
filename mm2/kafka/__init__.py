"""Kafka clients and protocol. The only package that uses aiokafka's internals.

Errors, backoff and retries, which all sub-packages use, are modules of this package.
"""
