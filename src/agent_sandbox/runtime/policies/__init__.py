"""Policies on disk: layers, versions, edits, services, and the registries that a project uses."""
