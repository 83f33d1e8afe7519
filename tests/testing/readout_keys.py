"""Keys of a network that choose each readout."""

import dataclasses
from typing import Any

from research import networks
from research.networks import readouts


def example_keys(name: str, network: type[networks.Network]) -> dict[str, Any]:
    """The example of a readout, with the first value of each key that it needs.

    Args:
      network: of its keys those that it has; others have such a value.
    """
    output = readouts.outputs()[name]
    needed = {key: values[0] for key, values in output.needs.items()}
    known = {field.name for field in dataclasses.fields(network)}
    return {n: v for n, v in (needed | dict(output.example)).items() if n in known}
