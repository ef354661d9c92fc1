"""OAuth for SASL OAUTHBEARER: tokens, the time of their renewal, assertions, and messages to brokers."""
