"""Suggest the narrowest rules that would have allowed the denials in the audit log."""
