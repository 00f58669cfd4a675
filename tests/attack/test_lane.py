"""The same bytes through both engines: what the server gets, what the client gets, and the records are the same."""

from __future__ import annotations
