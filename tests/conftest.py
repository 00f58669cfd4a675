"""How long the laws are tried: a moment by default, as long as it takes with HYPOTHESIS_PROFILE=deep."""

import os

from hypothesis import HealthCheck, settings

# No database: a run leaves nothing in the checkout, and each found bug becomes an @example.
settings.register_profile("fast", max_examples=25, deadline=None, database=None)
settings.register_profile(
    "deep", max_examples=5000, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))
