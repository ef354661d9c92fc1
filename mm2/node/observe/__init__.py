"""What a node finds out about its clusters although no lane copies: whether they answer, and what is left to copy."""
