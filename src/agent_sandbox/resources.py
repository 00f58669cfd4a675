"""Find the data files: templates, images, services.

They are in the root of a checkout, or in `_data/` of an installed wheel.
"""

from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent


@cache
def data_root() -> Path:
    """Return the folder that contains `templates/`, `images/` and `services/`."""
    installed = PACKAGE / "_data"
    return installed if installed.is_dir() else PACKAGE.parents[1]
