"""Engines that run stacks: the interface, plans as immutable steps, and a folder for each engine.

Outside such a folder, only the tables `drivers.py` and `renderers.py` name an engine; `stack/engine.py` has its words.
"""
