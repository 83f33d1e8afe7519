"""Options of a network: a transformer's defaults, with changes."""

import dataclasses
from typing import Any

from research import networks
from research.config import base


def model_options(*, network: str = "transformer", **changes: Any) -> networks.Network:
    """The keys of research/config/base.py, but for `changes`; of another network than
    the transformer, those that it has."""
    cls = networks.FOLDER.part_class(network, "model.network")
    section = base.get_config().model.to_dict() | changes
    del section["network"]
    if network != "transformer":
        known = {field.name for field in dataclasses.fields(cls)}
        section = {key: value for key, value in section.items() if key in known}
    return cls(**section)
