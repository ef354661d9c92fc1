"""Which copies on the target belong to which source records, found by content: `mm2.cli.maps` rebuilds maps by it."""
