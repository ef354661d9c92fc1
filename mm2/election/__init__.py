"""Group membership and leader election behind one protocol (`protocol.Election`).

`group_guarded_election` chooses the backend; `mm2.core.assignment` computes what a leader assigns.
"""
