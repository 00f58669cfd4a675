"""The interface between us and an engine: what a driver observes, does and checks. No engine is named here."""
