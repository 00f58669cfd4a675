"""Engines that run stacks: the interface, plans as immutable steps, and a folder for each engine.

Outside such a folder, no engine is named but in the table `drivers.py`.
"""
