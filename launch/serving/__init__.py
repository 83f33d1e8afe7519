"""The server of `launch.serve`: an ASGI application, one working thread, a page."""
