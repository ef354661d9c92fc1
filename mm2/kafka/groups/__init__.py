"""Consumer groups: listing, describing, and reading and committing their offsets."""
