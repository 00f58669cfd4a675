"""The same bytes through both engines: what the server gets, what the client gets, and the records are the same."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from capture_server import Capture
from certificates import make_authority
from proxy_stand import ProxyProcess, get
from response_shapes import shapes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

