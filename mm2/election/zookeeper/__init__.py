"""Election by ZooKeeper. The only package that uses kazoo."""
