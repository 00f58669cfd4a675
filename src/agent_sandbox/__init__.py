"""Run AI coding agents in a sandbox that reaches only what a policy allows."""

__version__ = "0.1.0"
