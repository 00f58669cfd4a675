"""The patterns of rules: hosts, host lists, paths, injections, private hosts, public suffixes, upstream proxies."""
