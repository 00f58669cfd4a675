"""Copy files between the host machine and a sandbox.

`tree.py` sends and receives on both ends, so it uses the standard library only. `transfer.py` connects the two ends.
"""
