"""The parts of a request in canonical form: authority, host, method, path, query, GraphQL operation."""
