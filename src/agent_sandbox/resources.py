"""Where the files that are no Python live: templates, images, services.

They lie at the root of the checkout, and in `_data/` inside an installed wheel.
"""

from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent


@cache
def data_root() -> Path:
    """Return the folder that holds `templates/`, `images/` and `services/`."""
    installed = PACKAGE / "_data"
    return installed if installed.is_dir() else PACKAGE.parents[1]
