"""Ask whether the user trusts a project's settings. Changes that only narrow need no question."""
