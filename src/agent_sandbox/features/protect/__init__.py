"""Protected paths: find them, record their content, check their mounts, and tell what was written meanwhile.

The patterns are in templates/_shared/protected.yaml; stack/services/agent.py makes the mounts.
"""
