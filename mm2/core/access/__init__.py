"""What the program needs to be allowed to do on its clusters: single rights, and the list of ACLs of a flow.

Pure: no I/O.
"""
