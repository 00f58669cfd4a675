"""The pydantic models of policy.yaml and of services, the short form, and the JSON Schema."""
