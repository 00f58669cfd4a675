"""`agent-sandbox ui`: the page, and the server on 127.0.0.1 that it talks to."""
