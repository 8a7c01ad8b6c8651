"""`calls.py py-mcp|py-fastmcp URL CALLS CONCURRENCY`: calls the echo tool through a Python client.

Prints one JSON line of figures.
"""

import asyncio
import json
import sys
import time


async def measure(call, calls, concurrency):
    micros = []
    begun = 0

    async def caller():
        nonlocal begun
        while begun < calls:
            begun += 1
            start = time.perf_counter()
            await call()
            micros.append((time.perf_counter() - start) * 1e6)

    start = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(concurrency)))
    seconds = time.perf_counter() - start
    micros.sort()

    def at(share):
        return int(micros[int((len(micros) - 1) * share)])

    return {"calls": len(micros), "per_s": int(len(micros) / seconds), "p50_us": at(0.5), "p99_us": at(0.99)}


async def with_fastmcp(url, calls, concurrency):
    from fastmcp import Client

    async with Client(url) as client:
        return await measure(lambda: client.call_tool("echo", {"text": "hello"}), calls, concurrency)


async def with_mcp(url, calls, concurrency):
    from mcp import ClientSession
    from mcp.client.streamable_http import streamable_http_client

    async with streamable_http_client(url) as streams:
        async with ClientSession(streams[0], streams[1]) as session:
            await session.initialize()
            return await measure(lambda: session.call_tool("echo", {"text": "hello"}), calls, concurrency)


async def main():
    kind, url, calls, concurrency = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    run = with_fastmcp if kind == "py-fastmcp" else with_mcp
    figures = await run(url, calls, concurrency)
    print(json.dumps({"kind": kind, "concurrency": concurrency, **figures}))


asyncio.run(main())
