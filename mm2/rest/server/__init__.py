"""The HTTP server: listeners, TLS, and response headers."""
