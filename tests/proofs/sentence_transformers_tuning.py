"""Tunes by sentence-transformers on pairs, with the batches, steps and rates of ours.

    python tests/proofs/sentence_transformers_tuning.py MODEL PAIRS.tsv DEV.csv

It needs torch and sentence-transformers, and nothing of ours. PAIRS.tsv has a header
and two columns, DEV.csv a header, two texts and people's score. Prints Spearman's
correlation of the cosines with the scores, before, and after tuning with each seed, as
JSON: what `palimpsest similarity` prints of a run of experiments/simcse.py.
"""

import argparse
import csv
import json

import torch
from scipy.stats import spearmanr
from sentence_transformers import SentenceTransformer
from sentence_transformers.losses import MultipleNegativesRankingLoss


def correlation(model: SentenceTransformer, rows: list[list[str]]) -> float:
    """Spearman's correlation of cosines with the last column, in per cent."""
    first, second = (
        model.encode([row[i] for row in rows], convert_to_tensor=True) for i in (0, 1)
    )
    cosines = torch.nn.functional.cosine_similarity(first, second).cpu().numpy()
    return 100 * float(spearmanr(cosines, [float(row[2]) for row in rows]).statistic)


def tune(
    folder: str, pairs: list[list[str]], seed: int, args: argparse.Namespace
) -> SentenceTransformer:
    """The model after args.steps of AdamW, whose rate falls to 0 on a line."""
    torch.manual_seed(seed)
    model = SentenceTransformer(folder, device="cpu")
    model.max_seq_length = args.length
    model.train()
    loss = MultipleNegativesRankingLoss(model, scale=1 / args.temperature)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.rate, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: 1 - step / args.steps
    )
    order = torch.randperm(len(pairs)).tolist()
    for step in range(args.steps):
        chosen = [
            order[(step * args.batch + n) % len(order)] for n in range(args.batch)
        ]
        tokens = [model.tokenize([pairs[n][side] for n in chosen]) for side in (0, 1)]
        loss(tokens, None).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    return model.eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("pairs")
    parser.add_argument("dev")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--length", type=int, default=32)
    parser.add_argument("--rate", type=float, default=3e-5)
    parser.add_argument("--temperature", type=float, default=0.05)
    parser.add_argument("--seeds", type=int, default=5)
    args = parser.parse_args()
    with open(args.pairs, encoding="utf-8") as file:
        pairs = [line.rstrip("\n").split("\t") for line in file][1:]
    with open(args.dev, encoding="utf-8", newline="") as file:
        dev = [*csv.reader(file)][1:]
    found = {"before": correlation(SentenceTransformer(args.model, device="cpu"), dev)}
    found["after"] = [
        correlation(tune(args.model, pairs, seed, args), dev)
        for seed in range(args.seeds)
    ]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
