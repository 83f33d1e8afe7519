"""Studies that were made once, and the pages and figures that they write."""
