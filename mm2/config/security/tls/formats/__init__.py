"""Formats of Java's key stores: JKS, JCEKS and PKCS12."""
