"""The server of `launch.serve`: a queue before one thread, HTTP, and a page."""
