"""What operators see in an outage: recorded from running nodes, judged, and written into docs."""
