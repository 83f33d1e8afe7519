"""The server of `palimpsest serve`: an ASGI application, one working thread, a page."""
