"""OAuth settings (sasl.mechanism = OAUTHBEARER) from their properties and the login module of sasl.jaas.config."""
