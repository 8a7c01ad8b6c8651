"""A small real MCP server, for Switchboard's tests.

Over stdio without arguments; with `--http` over Streamable HTTP or `--sse` over HTTP+SSE on a free port of the
loopback, which it names on stderr, until its stdin ends.
"""

import os
import socket
import sys
import threading
from dataclasses import dataclass

import uvicorn
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError

server = FastMCP("fastmcp-peer", version="1.0.0", instructions="Answers small questions.")


@dataclass
class Weather:
    """The weather of a place."""

    place: str
    degrees: float


@server.tool
def echo(message: str) -> str:
    """Says what it is told."""
    return message


@server.tool
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool
def weather(place: str) -> Weather:
    """Tells the weather, with structured content."""
    return Weather(place=place, degrees=21.5)


@server.tool
async def slow(steps: int, context: Context) -> str:
    """Reports progress for each step."""
    for step in range(steps):
        await context.report_progress(step + 1, steps)
    return f"{steps} steps"


@server.tool
def fail(reason: str) -> str:
    """Fails with the reason that it is given."""
    raise ToolError(reason)


@server.resource("note://welcome", name="welcome", mime_type="text/plain")
def welcome() -> str:
    """A note."""
    return "Welcome"


@server.resource("note://numbers/{number}", name="number", mime_type="text/plain")
def number(number: str) -> str:
    """A note for each number."""
    return f"Number {number}"


@server.prompt
def greet(name: str) -> str:
    """Greets somebody."""
    return f"Please greet {name}."


def serve_http(transport: str) -> None:
    """Listens before it names the port, so that whoever reads the name can connect."""

    def end_with_stdin() -> None:
        sys.stdin.read()
        os._exit(0)

    threading.Thread(target=end_with_stdin, daemon=True).start()
    listener = socket.create_server(("127.0.0.1", 0))
    print(f"listening on port {listener.getsockname()[1]}", file=sys.stderr, flush=True)
    config = uvicorn.Config(server.http_app(transport=transport), log_level="warning")
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    if sys.argv[1:] == ["--http"]:
        serve_http("http")
    elif sys.argv[1:] == ["--sse"]:
        serve_http("sse")
    else:
        server.run(transport="stdio", show_banner=False)
