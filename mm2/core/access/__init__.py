"""What the program needs to be allowed to do on its clusters: single rights, and the list of ACLs of a flow; and who
may use a node: roles, tokens, and the records of what they did.

Pure: no I/O.
"""
