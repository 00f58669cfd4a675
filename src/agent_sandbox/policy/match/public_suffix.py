"""Wildcards that would allow strangers: over a suffix below which anybody registers names."""

from functools import cache
from typing import TYPE_CHECKING

from agent_sandbox.policy.errors import Unfit
from agent_sandbox.policy.match.host_pattern import HostPattern, Reach

if TYPE_CHECKING:
    from publicsuffixlist import PublicSuffixList

# Clouds, in which one customer has many names: a wildcard may be meant there, and `policy lint` tells the risk.
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


def refuse_strangers(pattern: HostPattern) -> None:
    """Raise Unfit for a pattern that takes in names which nobody who reads the policy can know."""
    if pattern.reach in {Reach.BELOW, Reach.APEX_AND_BELOW} and is_public_suffix(pattern.name):
        what = f"`{pattern}` takes in every name that anybody registers below `{pattern.name}`"
        raise Unfit(what, "name the hosts you need")


def is_public_suffix(name: str) -> bool:
    """Tell whether anybody registers names directly below a canonical name; clouds are told by `policy lint`.

    >>> [is_public_suffix(name) for name in ("co.uk", "github.io", "example.com")]
    [True, True, False]
    """
    import idna  # noqa: PLC0415 - only a wildcard pays for it

    shown = ".".join(idna.ulabel(label) if label.startswith("xn--") else label for label in name.split("."))
    if _suffixes().publicsuffix(shown) != shown:
        return False
    labels = name.split(".")
    return not any(".".join(labels[start:]) in CLOUDS for start in range(len(labels)))


@cache
def _suffixes() -> "PublicSuffixList":
    """Read the list once, and only for a policy with a wildcard: it takes as long as a thousand hosts."""
    from publicsuffixlist import PublicSuffixList  # noqa: PLC0415 - for the same reason

    # In Unicode alone: to encode all of it would take five times as long.
    return PublicSuffixList(accept_encoded_idn=False)
