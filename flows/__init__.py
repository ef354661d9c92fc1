"""The data plane: what runs inside Spark. Started by the node as ``python -m flows.engine``."""
