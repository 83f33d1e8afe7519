"""Facts about published systems, and the test that holds the experiments to them."""
