"""`agent-sandbox policy ...`: only `suggest` without a file needs the running stack."""
