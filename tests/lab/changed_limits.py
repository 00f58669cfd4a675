"""Code for `sabotage` that lowers some limits of the proxy, which a test can then reach."""


def limits_with(**values: float) -> str:
    """Return code that gives these limits to a proxy, before it imports what uses them."""
    return (
        "import functools\nfrom agent_sandbox.proxy import limits\n"
        f"limits.Limits = functools.partial(limits.Limits, **{values!r})\n"
    )
