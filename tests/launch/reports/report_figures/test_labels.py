"""Pictures of a report that show how well each label is predicted."""

import json
import re
from types import SimpleNamespace

import pytest
from etils import epath

from launch.reports.report_figures.labels import label_figures

RIGHT = {"class": ["a", "b", "c"], "tags": [["B-P", "I-P"], ["O"], ["B-Q"]]}


def trial(folder, name, kind, predictions):
    """A run with predictions of its test split; None: it wrote none."""
    if predictions is not None:
        path = folder / name / "predictions" / "test.jsonl"
        path.parent.mkdir(parents=True)
        pairs = zip(predictions, [*RIGHT[kind], None], strict=True)
        rows = ({"id": "1", "prediction": p, "gold": g} for p, g in pairs)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    objective = SimpleNamespace(predicts=kind)
    return SimpleNamespace(folder=epath.Path(folder / name), objective=objective)


@pytest.mark.parametrize("kind", ["class", "tags"])
def test_each_label_of_each_row_is_drawn(tmp_path, kind):
    right = RIGHT[kind]
    rows = {
        "good": {"task": [trial(tmp_path, "one", kind, [*right, right[0]])]},
        "bad": {"task": [trial(tmp_path, "two", kind, [right[1]] * 3 + [right[0]])]},
        "none": {"task": [trial(tmp_path, "three", kind, None)]},
        "other": {"first": [SimpleNamespace(objective=SimpleNamespace(predicts=""))]},
    }
    found = list(label_figures(rows))
    names = ["labels-1.svg", "confusion-1.svg"][: 2 if kind == "class" else 1]
    assert [name for name, _, _ in found] == names
    for _, caption, image in found:
        assert caption.startswith("task, test split: ") and image.startswith("<svg")
        panels = {"good", "bad"} | ({"a", "b", "c"} if kind == "class" else {"P", "Q"})
        assert panels <= set(_words(image))
        assert "none" not in _words(image)


def _words(image):
    """The texts of a figure, which matplotlib draws as paths behind a comment."""
    return re.findall(r"<!-- (.*?) -->", image)
