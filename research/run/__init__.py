"""What a run needs beside the step: setup, optimizer, cost, and what it writes."""
