"""Tables and reports of a sweep: cells, formats, figures, pages."""
