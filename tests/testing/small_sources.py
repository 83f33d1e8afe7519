"""What objectives read beside text, in place of files."""

from typing import Any

SMALL = {
    "entities": {"objective.entities": "random", "model.layers": 2},
    "images": {"objective.images": "random", "objective.patch": 4},
}
"""Field of an objective -> config keys with random values of what it names."""


def small_sources(objective: Any) -> dict[str, Any]:
    """The keys of all fields that an objective has."""
    found: dict[str, Any] = {}
    for field, keys in SMALL.items():
        found |= keys if hasattr(objective, field) else {}
    return found
