"""Runs of tasks, exported, predict in Hugging Face what they predict here.

    .venv/bin/python -m tests.proofs.huggingface_exports make FOLDER
    HF/bin/python tests/proofs/huggingface_exports.py check FOLDER

The first command exports an untrained run of each case and keeps its texts, rows and
predictions. The second needs transformers and nothing of this project (`make
goldens-hf` has such an environment): it loads each export by its Auto classes and fails
if a key is missing, or if the ids, the token types or the predictions of a text differ.
"""

import json
import sys
from pathlib import Path

EXPECTED, EXPORTED = "expected.json", "exported"
TOLERANCE = 1e-5


def make(folder: Path) -> int:
    """Exports the runs."""
    from research.use.export import export_run
    from tests.testing import task_runs

    for name in task_runs.CASES:
        (folder / name).mkdir(parents=True)
        run = task_runs.make(name, folder / name)
        print(*export_run(run.workdir, folder / name / EXPORTED), sep="\n")
        content = {
            "parts": run.parts,
            "rows": run.rows,
            "token_types": run.token_types,
            "values": [value.tolist() for value in run.values],
        }
        (folder / name / EXPECTED).write_text(json.dumps(content))
    return 0


def check(folder: Path) -> int:
    """The number of exports that differ."""
    import torch
    import transformers

    wrong = 0
    for path in sorted(folder.glob(f"*/{EXPECTED}")):
        expected, source = json.loads(path.read_text()), path.parent / EXPORTED
        config = json.loads((source / "config.json").read_text())
        kind = config["architectures"][0].partition("For")[2]
        auto = getattr(transformers, f"AutoModelFor{kind}")
        model, info = auto.from_pretrained(source, output_loading_info=True)
        tokenizer = transformers.AutoTokenizer.from_pretrained(source)
        missing = sorted(info["missing_keys"])
        rows = {tuple(row): n for n, row in enumerate(expected["rows"])}
        largest, others = 0.0, 0
        is_tags = kind == "TokenClassification"
        arguments = {"padding": True, "return_tensors": "pt"}
        if is_tags:
            arguments |= {"is_split_into_words": True}
            columns = [expected["parts"]]
        else:
            columns = [list(column) for column in zip(*expected["parts"], strict=True)]
        inputs = tokenizer(*columns, **arguments)
        with torch.no_grad():
            logits = model.eval()(**inputs).logits.numpy()
        for row, value in zip(range(len(logits)), logits, strict=True):
            here = inputs["attention_mask"][row].bool()
            ids = tuple(inputs["input_ids"][row][here].tolist())
            if ids not in rows:
                others += 1
                continue
            n = rows[ids]
            if "token_type_ids" in inputs:
                types = inputs["token_type_ids"][row][here].tolist()
                others += types != expected["token_types"][n]
            own = expected["values"][n]
            if is_tags:
                others += value.argmax(axis=1)[: len(ids)].tolist() != own[: len(ids)]
            else:
                largest = max(largest, abs(value - own).max())
        print(
            f"{path.parent.name}: {config['architectures'][0]}, {len(missing)} keys "
            f"missing, {others} of {len(logits)} texts differ, logits by {largest:.1e}"
        )
        wrong += bool(missing or others or largest > TOLERANCE)
    return wrong


if __name__ == "__main__":
    command, where = sys.argv[1:]
    sys.exit({"make": make, "check": check}[command](Path(where)))
