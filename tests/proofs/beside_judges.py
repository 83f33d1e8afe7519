"""The judges' figures of our model beside those of their own model classes.

    P="PYTHON -m tests.proofs.beside_judges"
    $P lm_eval FOLDER PAIRS.jsonl.gz
    $P mteb FOLDER PAIRS.csv

FOLDER is a model in Hugging Face's layout with its tokenizer: a decoder, or one of
sentence-transformers. The first compares every log-likelihood of minimal pairs (BLiMP's
keys sentence_good and sentence_bad) with lm-eval's class `hf`, the second the
correlations of scored pairs (two texts and a number, without a header) with MTEB's
class for sentence-transformers. PYTHON has the program and, beside it, the library,
torch, transformers and sentence-transformers:

    uv venv JUDGES && uv pip install --python JUDGES . torch lm_eval[hf] mteb

Prints the largest difference, and ends with 1 if it is above TOLERANCE.
"""

import argparse
import csv
import gzip
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from research.evaluation import harness
from research.use.inference.open_run import open_run

TOLERANCE = {"lm_eval": 1e-4, "mteb": 1e-4}


def compare_lm_eval(folder: str, pairs: str) -> float:
    """The largest difference of a log-likelihood, of texts and of last words."""
    from lm_eval.models.huggingface import HFLM

    with gzip.open(pairs, "rt", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    texts = [line[f"sentence_{which}"] for line in lines for which in ("good", "bad")]
    cut = (text.rpartition(" ") for text in texts)
    ends = [SimpleNamespace(args=(start, f" {last}")) for start, _, last in cut]
    whole = [SimpleNamespace(args=("", text)) for text in texts]
    ours = harness.language_model(open_run(f"hf:{folder}"))
    theirs = _with_args(HFLM(pretrained=folder, device="cpu", dtype="float32"))
    largest = 0.0
    # apart: its cache of logits mixes requests up whose texts are equal as a whole,
    # and of which one begins elsewhere
    for requests in (ends, whole):
        found = ours.loglikelihood(requests)
        expected = theirs.loglikelihood(requests)
        greedy = sum(a[1] == b[1] for a, b in zip(found, expected, strict=True))
        print(f"{greedy} of {len(requests)} are greedy in both or in none")
        differences = (a[0] - b[0] for a, b in zip(found, expected, strict=True))
        largest = max(largest, *map(abs, differences))
    return largest


def _with_args(model: Any) -> Any:
    """The model, which lm-eval asks by instances of its own class."""
    from lm_eval.api.instance import Instance

    def ask(requests: list[Any]) -> list[tuple[float, bool]]:
        instances = [
            Instance("loglikelihood", {}, request.args, number)
            for number, request in enumerate(requests)
        ]
        return model.loglikelihood(instances)

    return SimpleNamespace(loglikelihood=ask)


def compare_mteb(folder: str, pairs: str) -> float:
    """The largest difference of a correlation of a task of semantic similarity."""
    import mteb
    from datasets import Dataset, DatasetDict
    from mteb.abstasks import AbsTaskSTS
    from mteb.abstasks.task_metadata import TaskMetadata
    from sentence_transformers import SentenceTransformer

    with open(pairs, encoding="utf-8", newline="") as file:
        rows = [*csv.reader(file)]
    columns = dict(
        zip(("sentence1", "sentence2", "score"), zip(*rows, strict=True), strict=True)
    )
    columns["score"] = [*map(float, columns["score"])]

    class LocalPairs(AbsTaskSTS):
        metadata = TaskMetadata(
            name="LocalPairs",
            description="Pairs of texts of a file.",
            reference=None,
            dataset={"path": pairs, "revision": "1"},
            type="STS",
            category="t2t",
            modalities=["text"],
            eval_splits=["test"],
            eval_langs=["eng-Latn"],
            main_score="cosine_spearman",
        )
        min_score, max_score = 0, 5

        def load_data(self, **_: Any) -> None:
            self.dataset = DatasetDict(test=Dataset.from_dict(columns))
            self.data_loaded = True

    def scores(model: Any) -> dict[str, float]:
        result = mteb.evaluate(model, [LocalPairs()], cache=None)
        (found,) = result.task_results[0].scores["test"]
        return {key: found[key] for key in ("cosine_spearman", "cosine_pearson")}

    ours = scores(harness.text_encoder(open_run(f"hf:{folder}")))
    theirs = scores(SentenceTransformer(folder, device="cpu"))
    print(f"ours {ours}\nMTEB's own class {theirs}")
    return max(abs(ours[key] - theirs[key]) for key in ours)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", choices=[*TOLERANCE])
    parser.add_argument("folder")
    parser.add_argument("pairs")
    args = parser.parse_args()
    compare = compare_lm_eval if args.library == "lm_eval" else compare_mteb
    folder = str(Path(args.folder).resolve())
    difference = compare(folder, str(Path(args.pairs).resolve()))
    print(f"largest difference {difference:.2g}")
    return int(difference > TOLERANCE[args.library])


if __name__ == "__main__":
    sys.exit(main())
