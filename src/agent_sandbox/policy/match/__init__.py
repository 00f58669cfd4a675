"""What a rule can say about a part of a request: patterns, lists, conditions, private hosts, public suffixes."""
