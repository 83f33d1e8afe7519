"""The model card of an exported run: README.md, with metadata for the Hub."""

import inspect
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from etils import epath
from huggingface_hub import EvalResult, ModelCardData

from research import objectives
from research.data.read.text_sources import source_of
from research.files.json_files import read_json
from research.files.paths import user_path
from research.interop.huggingface import SOURCE
from research.interop.huggingface import folder as folders
from research.record.metric_writer import BEST_STEP, latest_metrics, read_metrics
from research.record.workdir import read_result

CARD = "README.md"

PIPELINES = {
    "ForMaskedLM": ("fill-mask", 'pipe(f"A {pipe.tokenizer.mask_token} text.")'),
    "ForCausalLM": ("text-generation", 'pipe("A text that", max_new_tokens=20)'),
    "LMHeadModel": ("text-generation", 'pipe("A text that", max_new_tokens=20)'),
    "ForSequenceClassification": ("text-classification", 'pipe("A text.")'),
    "ForTokenClassification": ("token-classification", 'pipe("A text.")'),
    "ForQuestionAnswering": (
        "question-answering",
        'pipe(question="Who wrote it?", context="Ada wrote it.")',
    ),
    "Model": ("feature-extraction", 'pipe("A text.")'),
}
"""How the name of a class ends -> the pipeline of transformers that loads it, and how
to call that."""


def model_card(
    workdir: epath.Path,
    config: Mapping[str, Any],
    facts: Mapping[str, Any],
    folder: Path | None = None,
    *,
    licence: str = "",
    languages: Sequence[str] = (),
) -> str:
    """README.md of an exported checkpoint.

    It has the objective, data, base model and its licence, tokens, commit and the
    evaluations of the checkpoint, with their 95 % intervals over items, if any.

    Args:
      facts: those of the checkpoint.
      folder: has the exported model, whose class determines the pipeline.
      licence: in the Hub's spelling, as in apache-2.0.
      languages: codes, as in en.
    """
    origin = {}
    if (workdir / "provenance.json").exists():
        origin = read_json(workdir / "provenance.json", "delete it")
    metrics = _metrics(workdir, facts["step"])
    margins = _margins(workdir, facts["step"])
    name = config["objective"]["name"]
    base, hub_name = _base_model(config)
    options = {k: public_name(v) for k, v in config["objective"].items() if k != "name"}
    text, task, call = text_of(config["data"], public_name), "", ""
    if folder and (folder / folders.CONFIG).is_file():
        (architecture,) = folders.read_json(folder / folders.CONFIG)["architectures"]
        ending = next((e for e in PIPELINES if architecture.endswith(e)), "")
        task, call = PIPELINES.get(ending, ("", ""))
    rows = {
        "objective": f"{name} ({', '.join(f'{k}={v}' for k, v in options.items())})",
        "text": text,
        **base,
        "fingerprint of the data": facts.get("data", origin.get("data")),
        "step": facts["step"],
        "tokens seen": metrics.pop("tokens_seen", None),
        "tokens scored": facts.get("tokens_scored"),
        "commit": origin.get("commit"),
    }
    scores = {
        key: value
        for key, value in metrics.items()
        if "/" in key and not key.startswith("train/") and math.isfinite(value)
    }
    rows |= {k: _with_margin(v, margins.get(k)) for k, v in scores.items()}
    objective = objectives.make_objective(**config["objective"])
    results = [
        _eval_result(key, value, margins.get(key), text, task)
        for key, value in scores.items()
    ]
    head = ModelCardData(
        library_name="transformers",
        license=licence or None,
        language=[*languages] or None,
        base_model=hub_name or None,
        pipeline_tag=task or None,
        tags=["palimpsest", name],
        model_name=workdir.name if results else None,
        eval_results=results or None,
    )
    sections = [
        f"---\n{head.to_yaml()}\n---",
        f"# {workdir.name}",
        "Trained by Palimpsest.",
        f"Objective `{name}`: {_explanation(objective)}",
        _table(rows),
    ]
    if task:
        sections[4:4] = [
            "```python\nfrom transformers import pipeline\n\n"
            f'pipe = pipeline("{task}", "DIRECTORY_OR_ORG/NAME")\nprint({call})\n```'
        ]
    return "\n\n".join(sections) + "\n"


def _metrics(workdir: epath.Path, step: int) -> dict[str, float]:
    """The latest values up to the step, or its own if it is the best step."""
    return latest_metrics(
        [
            line
            for line in read_metrics(workdir)
            if line.get(BEST_STEP, step) == step
            and (line["step"] <= step or BEST_STEP in line)
        ]
    )


def _margins(workdir: epath.Path, step: int) -> dict[str, float]:
    """Half widths of the intervals of the run's result, if the step is its last."""
    if not (workdir / "result.json").exists():
        return {}
    result = read_result(workdir)
    is_result = step == (result["best_step"] or result["steps"])
    return result.get("margins", {}) if is_result else {}  # a shrunk run has none


def _with_margin(value: float, margin: float | None) -> str:
    return f"{value:.6g}" if margin is None else f"{value:.6g} ± {margin:.2g}"


def _eval_result(
    key: str, value: float, margin: float | None, text: str, task: str
) -> EvalResult:
    split, _, metric = key.rpartition("/")
    interval = f"{metric} (95 % interval ± {margin:.2g})" if margin else metric
    return EvalResult(
        task_type=task or "other",
        dataset_type=re.sub(r"[^\w.-]+", "-", text).strip("-") or "text",
        dataset_name=text,
        dataset_split=split,
        metric_type=metric,
        metric_name=interval,
        metric_value=value,
    )


def _explanation(objective: Any) -> str:
    """The first sentences of an objective's documentation."""
    paragraphs = (inspect.getdoc(type(objective)) or "").split("\n\n")
    return " ".join(" ".join(paragraphs[:2]).split())


def _table(rows: Mapping[str, Any]) -> str:
    lines = [f"| {key} | {value} |" for key, value in rows.items()]
    return "\n".join(["| | |", "|---|---|", *lines])


def text_of(
    data: Mapping[str, Any], spell: Callable[[str], str] = lambda name: name
) -> str:
    """The text on which a run is trained.

    Args:
      spell: how a file or a corpus is named.
    """
    rates = data["mixture"].items()
    mixture = ", ".join(f"{spell(name)} ({rate})" for name, rate in rates)
    return data["task"] or spell(data["train"]) or mixture or spell(data["corpus"])


def public_name(value: Any) -> Any:
    """The name of a file or folder without its parents, which are not public.

    A pattern such as *.txt keeps the name of its folder.
    """
    if not isinstance(value, str) or source_of(value):
        return value
    parts = value.rstrip("/").split("/")
    return "/".join(parts[-2 if "*" in parts[-1] else -1 :])


def _base_model(config: Mapping[str, Any]) -> tuple[dict[str, str], str]:
    """Rows about the model from which training began.

    They have its name on the hub if it comes from there.
    """
    source = config["train"]["init_from"]
    if not source:
        return {}, ""
    name = source.removeprefix(SOURCE)
    is_hub = name != source and not Path(user_path(name)).exists()
    card, licence = Path(user_path(name)) / CARD, "not known"
    if card.is_file():
        found = re.search(r"^license: *(.+)$", card.read_text("utf-8"), re.MULTILINE)
        licence = found[1].strip() if found else licence
    shown = name if is_hub else public_name(name)
    return {"base model": shown, "its licence": licence}, name if is_hub else ""
