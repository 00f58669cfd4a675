"""The output of `refusals` in the firewall container: nft's JSON, then the proxy's address and a number."""

import json
from collections.abc import Sequence
from typing import Any

type Rows = Sequence[tuple[Any, Any, Any]]  # key, seconds until it expires, packets


def refusals_said(
    *,
    places: Rows = (),
    addresses: Rows = (),
    protocols: Rows = (),
    proxy: str = "10.0.0.2",
    ipv6: str = "0",
    started: bool = True,
) -> str:
    """Return the output, with the sets that nft prints between chains and rules."""
    sets: list[dict[str, Any]] = [{"name": "started", **({"elem": ["ipv4"]} if started else {})}]
    for name, rows in (("places", places), ("addresses", addresses), ("protocols", protocols)):
        elements = [
            {
                "elem": {
                    "val": key if name == "protocols" else {"concat": key},
                    "expires": left,
                    "counter": {"packets": n},
                }
            }
            for key, left, n in rows
        ]
        sets.append({"name": name, "table": "agent-sandbox", **({"elem": elements} if elements else {})})
    listed = [{"metainfo": {"version": "1.1.3"}}, {"chain": {"name": "output"}}, *({"set": one} for one in sets)]
    return f"{json.dumps({'nftables': [*listed, {'rule': {}}]})}\n{proxy} {ipv6}\n"
