"""The checkpoints of a model: of a run or of folders in Hugging Face's layout."""

import dataclasses
import hashlib
from pathlib import Path
from typing import Any

from etils import epath

from research.checkpoints.checkpoint import FOLDER, finished_steps
from research.config.identity import read_run_config
from research.contract.errors import UserError
from research.evaluation.babylm.backends import ROWS
from research.evaluation.babylm.judge import OWN, Judge, OwnJudge, PipelineJudge
from research.evaluation.babylm.rules import MAIN, checkpoint_name, checkpoint_number
from research.evaluation.babylm.tokenizer import Tokenizer, exported_tokenizer
from research.files.checksums import CHECKSUMS_FILE
from research.files.existence import exists
from research.files.json_files import read_json
from research.files.paths import user_path
from research.interop.huggingface import SOURCE
from research.interop.huggingface.families import family_of
from research.interop.huggingface.folder import CONFIG
from research.interop.huggingface.restore import find_folder
from research.program.restored import run_checkpoint
from research.program.words_seen import FILE as WORDS_FILE
from research.use.inference.open_run import open_run


@dataclasses.dataclass(frozen=True)
class Checkpoints:
    """The revisions of a model.

    Attributes:
      name: the model's, in the folder of results.
      sources: revision -> the argument of `open_run`, and the step; checkpoints are in
        ascending order, and MAIN is last.
      seen: words that the model has seen; 0: unknown.
    """

    name: str
    sources: dict[str, tuple[str, int]]
    seen: int

    @property
    def names(self) -> list[str]:
        """The revisions except MAIN."""
        return [name for name in self.sources if name != MAIN]

    def open(self, name: str) -> Any:
        """The `LanguageModel` of a revision."""
        source, step = self.sources[name]
        return open_run(source, step=step, any_start=True)

    def fingerprint(self, name: str) -> str:
        """The hash of a revision's weights."""
        source, step = self.sources[name]
        if not source.startswith(SOURCE):
            folder = run_checkpoint(source, step)[0]
            return _sha256([Path(folder / CHECKSUMS_FILE)])
        folder = find_folder(source)
        return _sha256(sorted(folder.glob("**/*.safetensors")))

    def source_of_main(self) -> str:
        """The value of train.init_from to start from the last checkpoint."""
        source, step = self.sources[MAIN]
        is_folder = source.startswith(SOURCE)
        return source if is_folder else str(Path(source) / FOLDER / str(step))


def _sha256(paths: list[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:16]


def find_checkpoints(source: str) -> Checkpoints:
    """The checkpoints of a run's workdir, or of hf:DIR.

    DIR has a folder `main` and one for each checkpoint, as `palimpsest export
    --revisions` writes them, or is the last checkpoint itself.

    Raises:
      UserError: there is no run or folder.
    """
    if source.startswith(SOURCE):
        return _of_folder(find_folder(source))
    workdir = epath.Path(user_path(source))
    read_run_config(workdir)  # before its checkpoints: the folder may be no run
    found, seen = run_revisions(workdir)
    sources = {name: (str(workdir), step) for name, step in found.items()}
    return Checkpoints(Path(source).stem, sources, seen)


def run_revisions(workdir: epath.Path) -> tuple[dict[str, int], int]:
    """The steps of a run's checkpoints by their names, and the words that it has seen.

    MAIN is the checkpoint that opens the run; words are 0 if they were not counted.
    """
    main = int(run_checkpoint(workdir)[0].name)
    if not exists(workdir / WORDS_FILE):
        return {MAIN: main}, 0
    plan = read_json(workdir / WORDS_FILE, "train the run again")
    finished = {*finished_steps(workdir / FOLDER)}
    named = {
        checkpoint_name(entry["words"]): entry["step"]
        for entry in plan["checkpoints"]
        if entry["step"] in finished
    }
    last = max([main, *finished])
    passed = [e["words"] for e in plan["checkpoints"] if e["step"] <= last]
    return named | {MAIN: main}, max(passed, default=0)


def _of_folder(folder: Path) -> Checkpoints:
    named = {
        number: path
        for path in folder.iterdir()
        if path.is_dir() and (number := checkpoint_number(path.name))
    }
    main = folder if (folder / CONFIG).is_file() else folder / MAIN
    if not main.is_dir():
        raise UserError(
            f"{SOURCE}{folder} has no {CONFIG} and no folder {MAIN}; write one with "
            "palimpsest export --revisions"
        )
    sources = {path.name: (f"{SOURCE}{path}", 0) for _, path in sorted(named.items())}
    sources[MAIN] = f"{SOURCE}{main}", 0
    return Checkpoints(folder.stem, sources, max(named, default=0))


def default_backend(model: Any, *, is_run: bool) -> str:
    """The pipeline's backend that uses a model as it was trained, or OWN.

    For several objectives, it is that of the first whose rows are not causal, if there
    is one. For hf:DIR, the objective is unknown: a model that attends to all tokens is
    assumed to be mlm, and an encoder-decoder enc_dec_mask.
    """
    return _backend_of(model.run.objective, model.needs, is_run)


def _backend_of(objective: Any, needs: Any, is_run: bool) -> str:
    if needs.stacks != "one":
        is_t5 = needs.stacks == "encoder_decoder" and not is_run
        return "enc_dec_mask" if is_t5 else OWN
    if members := getattr(objective, "members", None):
        asked = min(members.values(), key=lambda each: each.pattern == "causal")
        return _backend_of(asked, needs, is_run)
    if objective.pattern == "causal" and not objective.reads_backward:
        return "causal"
    if getattr(objective, "predict_at", "") == "previous":
        return "mntp"
    return "mlm" if objective.fills_masks else OWN


def make_judge(
    checkpoints: Checkpoints, model: Any, backend: str, method: str = ""
) -> Judge:
    """The judge that uses a model with a backend.

    Args:
      backend: one of `backends.ROWS` or OWN; "": `default_backend`.
      method: one of the objective's, for OWN.

    Raises:
      UserError: the network cannot serve the backend; or there is no such method.
    """
    source, _ = checkpoints.sources[MAIN]
    is_run = not source.startswith(SOURCE)
    backend = backend or (OWN if method else default_backend(model, is_run=is_run))
    if backend == OWN:
        return OwnJudge(model, method)
    if backend not in ROWS or method:
        known = ", ".join([*ROWS, OWN])
        what = "--method is of --backend=own" if method else f"no backend {backend!r}"
        raise UserError(f"{what}; --backend is one of {known}")
    if is_run:
        return PipelineJudge(model, exported_tokenizer(model), backend)
    folder = find_folder(source)
    tokenizer = Tokenizer(folder)
    config = read_json(folder / CONFIG, "bring it back")
    typed = family_of(config, folder).types_are_tokens and tokenizer.gives_token_types
    return PipelineJudge(model, tokenizer, backend, types_are_tokens=typed)
