"""Find entries of a valid policy that are a risk or have no effect. `table.py` lists all checks."""
