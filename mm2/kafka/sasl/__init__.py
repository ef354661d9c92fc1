"""SASL authentication of connections to brokers: mechanisms, logins and their renewal."""
