"""GSSAPI: tickets of Kerberos, and the messages that prove them to a broker. The package gssapi is imported only by
`gss_credentials` and `gss_exchange`, because it is optional."""
