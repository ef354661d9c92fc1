"""The function that Spark runs for a lane."""
