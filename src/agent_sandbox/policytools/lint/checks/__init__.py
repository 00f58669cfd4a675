"""The checks: each takes a policy file with its policy and yields findings. `table.py` names them."""
