"""Protected paths: find them, record their content, check their mounts.

The patterns are in templates/_shared/protected.yaml; stack/services/agent.py makes the mounts.
"""
