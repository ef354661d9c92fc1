"""Kerberos settings (sasl.mechanism = GSSAPI) from properties, the login module of sasl.jaas.config, and files."""
