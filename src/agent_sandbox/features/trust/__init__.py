"""Ask whether the user trusts a project's settings. A change that only takes access away is not asked about."""
