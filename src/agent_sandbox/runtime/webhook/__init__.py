"""The user's webhook: its file, how a message is signed and sent, and whether the last one arrived."""
