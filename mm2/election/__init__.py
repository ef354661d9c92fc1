"""Group membership and leader election behind one protocol (`protocol.Election`).

`factory` chooses the backend; `mm2.core.assignment` computes what a leader assigns.
"""
