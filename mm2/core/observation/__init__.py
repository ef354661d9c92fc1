"""What a node knows of its clusters by asking them itself: whether they answer, what is left to copy, and for how long.

Times are arguments, in seconds of the clock that a function names.
"""
