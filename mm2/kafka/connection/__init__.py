"""One connection to one broker: TLS, SASL, framing, and diagnosis of failures."""
