"""Values of published systems that were mixed up."""

from tests.proofs.mutation import Mutant

TEST = "tests/fidelity/test_facts.py"
TEST_SWEEPS = "tests/test_sweeps.py"

MUTANTS = [
    Mutant(
        "families on benchmarks read other rows of the text",
        "experiments/sweeps/tasks.py",
        '{"data.stride": stride(SCALES[scale])}',
        "{}",
        TEST_SWEEPS,
        "same_tokens",
    ),
    Mutant(
        "MASS reads single sentences beside full rows of others",
        "experiments/sweeps/babylm.py",
        '("experiments/mass.py", FULL_ROWS)',
        '("experiments/mass.py", {})',
        "tests/test_tables.py",
        "single_sentence",
    ),
    Mutant(
        "ERNIE's stages are those of another number of steps",
        "experiments/sweeps/chinese.py",
        'ernie.stages(config["train.steps"])',
        "ernie.stages(300)",
        "tests/test_tables.py",
        "stages_of_ernie",
    ),
    Mutant(
        "ERNIE has a network and an optimizer of its own beside BERT-wwm's",
        "experiments/sweeps/chinese.py",
        "return finetuning.like(reference, base)",
        "return {}",
        TEST_SWEEPS,
        "masks_alone",
    ),
    Mutant(
        "ERNIE hides another fraction than BERT-wwm",
        "experiments/sweeps/chinese.py",
        "part | rate for",
        "part for",
        TEST_SWEEPS,
        "masks_alone",
    ),
    Mutant(
        "one of SpanBERT's tables of ablations has twice its steps",
        "experiments/sweeps/spanbert7.py",
        'spanbert6.ablation("spanbert7", scale, tasks)',
        'spanbert6.finetuning.sweep("spanbert7", scale, tasks, size="large")',
        TEST_SWEEPS,
        "ablations_of_spanbert",
    ),
    *(
        Mutant(
            f"the decay of {row} is a fraction of the steps after the warm-up alone",
            f"experiments/sweeps/{sweep}.py",
            old,
            new,
            TEST_SWEEPS,
            "decays_are",
        )
        for row, sweep, old, new in (
            ("one stage", "gisserot2025", "decay / (steps - warmup)", "decay / steps"),
            (
                "a second stage",
                "gisserot2025",
                "decay / (steps - before - warmup)",
                "decay / (steps - before)",
            ),
            ("a network that goes on", "weller2025", "10 / (50 - 3)", "10 / 50"),
        )
    ),
    Mutant(
        "BERT-small hides another fraction than ELECTRA-small",
        "experiments/sweeps/electra_small.py",
        'RATE = {"paper_mask_rate": True}',
        'RATE = {"paper_mask_rate": False}',
        "tests/test_tables.py",
        "bert_small",
    ),
    *(
        Mutant(bug, f"experiments/sweeps/{sweep}.py", old, new, TEST_SWEEPS, test)
        for bug, sweep, old, new, test in (
            (
                "ULMFiT's language models make two thirds of their passes",
                "ulmfit",
                "(322_600, 19_600, 19_550)",
                "(220_000, 5_850, 19_550)",
                "passes_of_their_texts",
            ),
            (
                "XLM has XNLG's batch",
                "xnlg",
                ', "train.batch": 1024}',
                "}",
                "batch_of_xlm",
            ),
            (
                "rows of RoBERTa's first table begin short",
                "roberta1",
                '{"train.phases": []}',
                "{}",
                "rows_of_robertas",
            ),
        )
    ),
    Mutant(
        "RoBERTa's large model has base's learning rate and warm-up",
        "experiments/roberta.py",
        '(4e-4, 30_000) if size == "large" else (6e-4, 24_000)',
        '(4e-4, 30_000) if size == "base" else (6e-4, 24_000)',
        TEST,
        "rows_hold and roberta",
    ),
    Mutant(
        "ELMo's ten passes count the part of a batch that each leaves out",
        "experiments/elmo.py",
        "steps=1_000_840",
        "steps=1_000_844",
        TEST,
        "rows_hold and elmo",
    ),
    Mutant(
        "ELECTRA's large model masks 15 %, as its small ones",
        "experiments/electra.py",
        '"large": (0.25, 1 / 4',
        '"large": (0.15, 1 / 4',
        TEST,
        "rows_hold and electra",
    ),
    Mutant(
        "a departure that is none any more stays declared",
        "tests/fidelity/table.py",
        'if kind != "equal" and same and not',
        'if kind == "open" and same and not',
        TEST,
        "does_not_hold",
    ),
    Mutant(
        "a value that an experiment sets needs no fact",
        "tests/fidelity/table.py",
        "for key in sorted(_set_keys(config, size)):",
        "for key in ():",
        TEST,
        "does_not_hold",
    ),
    *(
        Mutant(
            f"{system}'s first step is said to learn, as if it were not as published",
            f"tests/fidelity/facts/{system}.toml",
            f'{source}", "the same"],',
            f'{source}", 1.0],',
            TEST,
            f"guard and {system} and first and step",
        )
        for system, source in {
            "bert": "create_optimizer: global_step / warm-up",
            "albert": "code optimization.py:59",
            "electra": "code model/optimization.py:44-45",
        }.items()
    ),
    *(
        Mutant(
            f"SpanBERT's {what} are said to be others than the released code's",
            "tests/fidelity/facts/spanbert.toml",
            f'{source}", "the same"],',
            f'{source}", "{ours}"],',
            TEST,
            f"guard and spanbert and {word}",
        )
        for what, source, ours, word in (
            (
                "anchors",
                "masking.py:109-131, merge_intervals",
                "words; spans do not overlap",
                "anchors",
            ),
            ("last spans", "masking.py:116, 128", "a whole word", "last"),
            (
                "boundary targets at a row's ends",
                "masking.py:251-253",
                "predicted from [CLS] and [SEP]",
                "boundary and ends",
            ),
            ("tokens that count", "masking.py:98-99", "with the specials", "taken"),
        )
    ),
    Mutant(
        "a row says nonsense of what ours does",
        "tests/fidelity/facts/xlnet.toml",
        '"code data_utils.py:283", "from the text ahead"],',
        '"code data_utils.py:283", "from the moon"],',
        TEST,
        "guard and xlnet and nonadjacent",
    ),
    Mutant(
        "a row says nonsense of the official value, and that ours is the same",
        "tests/fidelity/facts/t5.toml",
        '"features times width^-0.5"',
        '"features times width"',
        TEST,
        "guard and t5 and readout",
    ),
    Mutant(
        "an experiment does not say that it cuts long sentences",
        "experiments/spanbert.py",
        "sentences longer than a row; ",
        "",
        TEST,
        "docstring and spanbert",
    ),
    Mutant(
        "XLM's batch is that of one device",
        "experiments/xlm.py",
        "batch=1024",
        "batch=64",
        TEST,
        "rows_hold and xlm",
    ),
]
