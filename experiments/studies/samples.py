"""Texts that several runs write after the same prompts, under one judge.

python -m experiments.studies.samples JUDGE held_out.txt lm=RUN mdlm=RUN:ancestral ...

JUDGE is a run of `lm` of another seed than those that write. The first four words of
each line are the prompt, after which a run writes 32 tokens at temperature 1; what the
line has there is judged, too. Of each run come three texts and, over all prompts:

* bits a word by the judge, of the new words given the prompt; lower is more probable;
* entropy, bits: that of the frequencies of the new words. A text that repeats itself is
  probable, and has a low one (Sahoo et al. 2024, appendix; Zheng et al. 2024, section
  5): only both together say something.
"""

import argparse
import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from research.use.inference.language_model import LanguageModel
from research.use.inference.open_run import open_run

PROMPT_WORDS, TOKENS, SHOWN = 4, 32, 3


def entropy(texts: Sequence[str]) -> float:
    """Of the frequencies of the texts' words, in bits."""
    counts = Counter(word for text in texts for word in text.split())
    share = np.array([*counts.values()]) / counts.total()
    return float(-(share * np.log2(share)).sum())


def bits_a_word(
    judge: LanguageModel, prompts: Sequence[str], texts: Sequence[str]
) -> float:
    """Minus log2 of the texts' probability after their prompts, by their words."""
    nats = -sum(each.log_prob for each in judge.score(texts, prompts))
    return nats / math.log(2) / sum(len(text.split()) for text in texts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("judge", help="folder of a run of lm")
    parser.add_argument("texts", help="lines of text that no run has read")
    parser.add_argument("runs", nargs="+", help="NAME=RUN or NAME=RUN:METHOD")
    parser.add_argument("--prompts", type=int, default=100)
    args = parser.parse_args()
    with open(args.texts, encoding="utf-8") as file:
        lines = [line.split() for line in file]
    lines = [line for line in lines if len(line) > 2 * PROMPT_WORDS][: args.prompts]
    prompts = [" ".join(line[:PROMPT_WORDS]) for line in lines]
    written = {"the text": [" ".join(line[PROMPT_WORDS:]) for line in lines]}
    for run in args.runs:
        name, _, place = run.partition("=")
        folder, _, method = place.partition(":")
        found = open_run(folder).generate(
            prompts, method=method or "sample", max_tokens=TOKENS
        )
        written[name] = [text.text.strip() for (text,) in found]
    judge = open_run(args.judge)
    for name, texts in written.items():
        kept = [n for n, text in enumerate(texts) if text]
        shown, chosen = [prompts[n] for n in kept], [texts[n] for n in kept]
        bits = bits_a_word(judge, shown, chosen)
        print(f"{name}: {bits:.2f} bits a word, entropy {entropy(chosen):.2f} bits")
        for prompt, text in zip(shown[:SHOWN], chosen, strict=False):
            print(f"    {prompt} | {text}")


if __name__ == "__main__":
    main()
