"""Files of predictions: one JSON line per example of an evaluation."""

import json
from collections.abc import Sequence

from etils import epath

from research.files.output_files import replace_text
from research.metrics import Item

MAX_CHARS = 20_000
"""Most characters of a text that are written; a longer one ends with an ellipsis."""


def write_predictions(path: epath.Path, items: Sequence[Item]) -> None:
    """Writes the items, one per line; the file is written atomically.

    A line has `id`, `prediction`, `gold` and `score` (null if the gold answer is
    unknown), `texts` (the parts of the example, in the order of data.fields), and if
    available `probabilities` (of classes by name, of tags one per word), and
    `answer_score` and `no_answer_score` of a span.

    Raises:
      OSError: it cannot be written; an existing file is kept.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_text(path, "".join(f"{line(item)}\n" for item in items))


def line(item: Item) -> str:
    """An item as JSON, see `write_predictions`."""
    content = item._asdict()
    details = content.pop("details")
    content["texts"] = [*map(_cut, item.texts)]
    return json.dumps(content | dict(details), ensure_ascii=False)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_CHARS else f"{text[:MAX_CHARS]}…"
