"""The parts of a request, each in one canonical form: authority, host, method, path, query, GraphQL operation."""
