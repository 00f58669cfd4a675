"""What rules name: hosts, host lists, paths, secrets to inject, private hosts, public suffixes, upstream proxies."""
