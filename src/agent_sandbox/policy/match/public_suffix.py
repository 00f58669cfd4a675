"""Reject wildcards over a public suffix, below which anyone can register names.

The list is data of a package that needs no network. Only the first wildcard of a policy loads it (20 ms).
"""

from functools import cache
from typing import TYPE_CHECKING

from agent_sandbox.policy.errors import InvalidValue
from agent_sandbox.policy.match.host_pattern import HostPattern, Reach

if TYPE_CHECKING:
    from publicsuffixlist import PublicSuffixList

# Clouds where one customer has many names: a wildcard may be intended there, and `policy lint` reports the risk.
CLOUDS = frozenset(
    (
        *("amazonaws.com", "amplifyapp.com", "awsapprunner.com", "cloudfront.net", "elasticbeanstalk.com", "on.aws"),
        *("azure.com", "azure.net", "azurecontainerapps.io", "azureedge.net", "azurefd.net", "azurestaticapps.net"),
        *("azurewebsites.net", "cloudapp.net", "trafficmanager.net", "windows.net"),
        *("appspot.com", "cloudfunctions.net", "firebaseapp.com", "googleapis.com", "run.app", "web.app"),
        *("fastly.net", "pages.dev", "r2.dev", "workers.dev"),
        *(
            "akamaihd.net",
            "akamaized.net",
            "b-cdn.net",
            "edgecompute.app",
            "edgekey.net",
            "edgesuite.net",
            "fastly.net",
        ),
        *("aliyuncs.com", "digitaloceanspaces.com", "linodeobjects.com", "myqcloud.com", "ondigitalocean.app"),
        *("ovh.net", "scw.cloud", "vultrobjects.com", "your-objectstorage.com"),
        *("fly.dev", "herokuapp.com", "netlify.app", "onrender.com", "vercel.app"),
    )
)


def require_no_public_suffix(pattern: HostPattern) -> None:
    """Raise InvalidValue for a wildcard over a public suffix."""
    if pattern.reach in {Reach.BELOW, Reach.APEX_AND_BELOW} and is_public_suffix(pattern.name):
        what = f"`{pattern}` matches every name that anyone registers below `{pattern.name}`"
        raise InvalidValue(what, "name the hosts you need")


def is_public_suffix(name: str) -> bool:
    """Return whether anyone can register names directly below a canonical name, except in clouds (see `policy lint`).

    >>> [is_public_suffix(name) for name in ("co.uk", "github.io", "example.com")]
    [True, True, False]
    """
    import idna  # noqa: PLC0415 - only needed for a wildcard

    shown = ".".join(idna.ulabel(label) if label.startswith("xn--") else label for label in name.split("."))
    if _suffixes().publicsuffix(shown) != shown:
        return False
    labels = name.split(".")
    return not any(".".join(labels[start:]) in CLOUDS for start in range(len(labels)))


@cache
def _suffixes() -> "PublicSuffixList":
    """Load the Public Suffix List once, and only for a wildcard: it takes as long as loading a thousand hosts."""
    from publicsuffixlist import PublicSuffixList  # noqa: PLC0415 - for the same reason

    # Only in Unicode: encoding the list would take five times as long.
    return PublicSuffixList(accept_encoded_idn=False)
