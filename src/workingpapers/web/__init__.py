"""The local web page (`papers serve`) and the server of tools for assistants (`papers mcp`)."""
