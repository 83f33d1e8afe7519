"""Age of acquisition: do a model and children learn words in the same order?"""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from research.contract.errors import UserError
from research.evaluation.babylm.acquisition import (
    is_bounded,
    read_children,
    score_acquisition,
)
from research.evaluation.babylm.backends import Candidate
from research.evaluation.babylm.judge import Judge
from research.evaluation.babylm.result import Result, fisher_interval
from research.evaluation.babylm.rules import RULES, Rules, checkpoint_number
from research.files.output_files import replace_text

SURPRISALS, SCORE = "surprisal.json", "aoa_score.json"


class Task:
    """Surprisals of words in contexts at each checkpoint; `finish` fits them."""

    is_correlation: ClassVar[bool] = True
    official: ClassVar[str] = "aoa"
    full: ClassVar[str] = ""
    fast: ClassVar[str] = ""
    of_checkpoints: ClassVar[str] = "aoa"  # the folder of its data, in the full set
    rules: ClassVar[tuple[str, ...]] = tuple(RULES)

    def collated(self, rules: Rules) -> dict[str, str]:
        if not is_bounded(rules):
            return {"aoa": SURPRISALS}
        return {"aoa_surprisals": SURPRISALS, "aoa": SCORE}

    def results_folder(self, backend: str, dataset: str) -> str:
        return f"zero_shot/{backend}/AoA_word"

    def evaluate(self, judge: Judge, data: Path, folder: Path, rules: Rules) -> Result:
        """Writes the surprisals of one checkpoint; its value is their mean.

        A text is the context and the word, which is scored.
        """
        contexts = read_contexts(data / "cdi_childes.json")
        asked = [
            (word, number, context)
            for word, contexts_of in contexts.items()
            for number, context in enumerate(contexts_of)
        ]
        candidates = []
        for word, _, context in asked:
            before, said = context.strip() + " ", word.strip()
            candidates.append(Candidate(before + said, said, before))
        surprisals = [-score.total for score in judge.log_probs(candidates)]
        entries = [
            {
                "target_word": word,
                "context_id": number,
                "context": context,
                "surprisal": surprisal,
            }
            for (word, number, context), surprisal in zip(
                asked, surprisals, strict=True
            )
        ]
        replace_text(folder / SURPRISALS, json.dumps(entries))
        mean = sum(surprisals) / len(surprisals)
        return Result(mean, math.nan, math.nan, len(asked))

    def finish(
        self,
        judge: Judge,
        data: Path,
        folders: Mapping[str, Path],
        folder: Path,
        rules: Rules,
        name: str,
    ) -> Result:
        """The correlation of ages, from the surprisals of all checkpoints.

        Args:
          folders: checkpoint -> where `evaluate` has written, in order.
          folder: for the files about all checkpoints.
          name: the model's, in the file.
        """
        results = []
        for step, of_step in folders.items():
            words = {"step": step, "word_count": checkpoint_number(step)}
            entries = json.loads((of_step / SURPRISALS).read_text("utf-8"))
            results += [words | entry for entry in entries]
        metadata = {
            "model_name": name,
            "use_bos_only": False,
            "total_steps": len(folders),
            "completed_steps": len(folders),
        }
        content = {"metadata": metadata, "results": results}
        replace_text(folder / SURPRISALS, json.dumps(content, indent=2))
        log_size = math.log(judge.vocab_size)
        found = score_acquisition(
            results,
            read_children(data / "cdi_human.csv"),
            rules,
            lambda word: judge.num_pieces(word) * log_size,
        )
        if is_bounded(rules):
            score = json.dumps({"aoa": found.score}, indent=2)
            replace_text(folder / SCORE, score)
        ends = fisher_interval(found.r, len(found.words))
        return Result(found.score, *ends, len(found.words), more={"r": found.r})


def read_contexts(path: Path) -> dict[str, Sequence[str]]:
    """Word -> contexts, from cdi_childes.json; words of one letter are left out.

    Raises:
      UserError: there is no such file, or it is malformed.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    content: Any = json.loads(path.read_text("utf-8"))
    try:
        return {
            word: [entry["context"] for entry in entries]
            for word, entries in content.items()
            if len(word) > 1
        }
    except (AttributeError, KeyError, TypeError) as error:
        raise UserError(
            f'{path} must be {{"word": [{{"context": "..."}}, ...]}}'
        ) from error
