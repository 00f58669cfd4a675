"""Requests that wait for a person: the questions, the grants that answers make, and those who watch."""
