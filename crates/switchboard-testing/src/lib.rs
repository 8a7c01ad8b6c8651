//! Scripted MCP peers for tests.
