"""Tables: files that `launch.report` reads, as it reads one of the user's own."""
