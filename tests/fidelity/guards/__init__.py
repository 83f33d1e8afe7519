"""What ours does where no config key says so: the guards of rows `unmodelled`."""

from tests.fidelity.guards import batches, networks, optimizers, texts, vectors

__all__ = ["batches", "networks", "optimizers", "texts", "vectors"]
