"""What a node is told to do: mm2.properties, typed, with every problem named (docs/configuration.md)."""
