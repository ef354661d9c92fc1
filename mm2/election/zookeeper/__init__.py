"""Election by ZooKeeper."""
