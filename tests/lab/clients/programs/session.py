"""Fetches a URL with aiohttp, told to heed proxy variables."""

import asyncio
import sys

import aiohttp


async def main(url: str) -> None:
    async with aiohttp.ClientSession(trust_env=True) as session, session.get(url) as answer:
        print(answer.status, await answer.text(), flush=True)
        answer.raise_for_status()


asyncio.run(main(sys.argv[1]))
