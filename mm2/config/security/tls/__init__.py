"""TLS settings (ssl.*): key stores and trust stores in all formats that Java's clients read, and what they contain."""
