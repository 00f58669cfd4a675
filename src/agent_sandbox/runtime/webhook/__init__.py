"""The user's webhook: its file, and whether the last message arrived."""
