"""Tables and reports: cells, formats, figures."""
