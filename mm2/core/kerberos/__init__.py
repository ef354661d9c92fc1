"""File formats of Kerberos: keytabs, ticket caches and krb5.conf."""
