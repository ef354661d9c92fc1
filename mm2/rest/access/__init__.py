"""Who may use the endpoints of a node: tokens, and failed logins."""
