"""Evaluates a model's checkpoints on the challenge's tasks, in its layout of files."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from research.contract.errors import UserError, unknown
from research.evaluation.babylm.collate import RESULT, collate
from research.evaluation.babylm.judge import Judge
from research.evaluation.babylm.result import Result
from research.evaluation.babylm.rules import (
    MAIN,
    MILLION,
    TRACKS,
    Rules,
    check_covered,
    checkpoint_name,
    checkpoint_words,
)
from research.evaluation.babylm.tasks import all_tasks, finetuned, owners
from research.files.output_files import replace_text
from research.use.babylm.checkpoints import Checkpoints, make_judge

FAST, FULL = "fast_eval", "full_eval"
"""Folders of the evaluation data: of checkpoints, and of the last one."""

Results = dict[str, dict[str, Result]]
"""Revision -> task -> its number."""


class Submission:
    """The evaluation of one model; existing results are not computed again.

    Args:
      checkpoints: those of the model.
      data: the folder with FAST and FULL.
      to: the folder of results, with a folder for the model.
      backend, method: see `make_judge`.
      tasks: names; (): all tasks of the rules whose data exists.
      finetune: trains on the tasks within one (`launch.glue`), called as finetune(
        checkpoints, data, folder, rules, tasks, names); None: these are left out.
      report: is called with a line for each number and for each missing set.
    """

    def __init__(
        self,
        checkpoints: Checkpoints,
        data: Path,
        to: Path,
        rules: Rules,
        *,
        backend: str = "",
        method: str = "",
        tasks: Sequence[str] = (),
        finetune: Callable[..., Mapping[str, Result]] | None = None,
        report: Callable[[str], None] = print,
    ):
        self._finetune = finetune
        self.checkpoints, self.data, self.rules = checkpoints, data, rules
        self.folder = to / checkpoints.name
        self.report = report
        self._chosen = tuple(tasks)
        self.tasks = find_tasks(rules, tasks)
        self._judge: Judge | None = None
        self._asked = backend, method
        self._opened = ""

    def run(self, *, only_main: bool = False) -> Results:
        """Evaluates, and writes the files, the collated one and the summary.

        Args:
          only_main: whether to evaluate only the last checkpoint.

        Raises:
          UserError: the data has none of the tasks' sets, or lacks one that was
            requested; a checkpoint is missing; a row is malformed.
        """
        source = self.checkpoints
        if not only_main:
            check_covered(source.names, source.seen, source.name)
        names = [] if only_main else source.names
        sets = self._sets(with_checkpoints=bool(names))
        judge = self._open(MAIN)
        results: Results = {}
        for name in [*names, MAIN]:
            for task_name, set_of in sets:
                dataset = set_of.get(name == MAIN, "")
                if dataset:
                    result = self._evaluate(name, task_name, dataset)
                    results.setdefault(name, {})[task_name] = result
        for task_name, set_of in sets:
            task = self.tasks[task_name]
            if hasattr(task, "finish") and names:
                at = task.results_folder(judge.backend, "")
                folders = {name: self.folder / name / at for name in names}
                into = self.folder / MAIN / at
                into.mkdir(parents=True, exist_ok=True)
                data = self.data / set_of[False]
                more = self.rules, source.name
                result = task.finish(judge, data, folders, into, *more)
                results.setdefault(MAIN, {})[task_name] = result
                self._say(MAIN, task_name, result)
        for task in self._finetuned():
            assert self._finetune is not None
            of = finetuned(task)
            names_of = [name for name in self._chosen if name in of]
            rows, at = self.data / FULL / task.full, self.folder / MAIN / "finetune"
            found = self._finetune(source, rows, at, self.rules, of, names_of)
            for name, result in found.items():
                results.setdefault(MAIN, {})[name] = result
                self._say(MAIN, name, result)
        track = TRACKS["strict" if source.seen > 100 * MILLION else "strict_small"]
        fast = [checkpoint_name(words) for words in checkpoint_words(track * MILLION)]
        scored = names or [n for n in source.names if (self.folder / n).is_dir()]
        wanted = fast if {*scored} <= {*fast} else scored
        path = collate(self.folder, judge.backend, wanted if scored else [], self.rules)
        self._summarise(results, judge.backend)
        self.report(str(path))
        return results

    def _sets(self, *, with_checkpoints: bool) -> list[tuple[str, dict[bool, str]]]:
        """(task, {whether it is of MAIN: its folder in the data}) of existing data."""
        found = []
        if not self.data.is_dir():
            raise UserError(f"--data={self.data} is not a folder")
        for name, task in self.tasks.items():
            if finetuned(task):
                continue
            wanted = {True: task.full and f"{FULL}/{task.full}"}
            if with_checkpoints:
                of_all = getattr(task, "of_checkpoints", "")
                each = f"{FULL}/{of_all}" if of_all else f"{FAST}/{task.fast}"
                wanted[False] = each if of_all or task.fast else ""
            here = {}
            for is_main, folder in wanted.items():
                if folder and (self.data / folder).is_dir():
                    here[is_main] = folder
                elif folder and name in self._chosen:
                    raise UserError(f"--data={self.data} has no folder {folder}")
                elif folder:
                    self.report(f"{name}: no folder {folder}, so it is not evaluated")
            if here:
                found.append((name, here))
        if not found and not self._finetuned():
            raise UserError(
                f"--data={self.data} has no set of tasks, which are folders such as "
                f"{FULL}/blimp_filtered and {FAST}/blimp_fast"
            )
        return found

    def _finetuned(self) -> list[Any]:
        """The tasks with others to train on whose data exists."""
        known = filter(finetuned, self.tasks.values() if self._finetune else ())
        return [task for task in known if (self.data / FULL / task.full).is_dir()]

    def _evaluate(self, revision: str, task_name: str, dataset: str) -> Result:
        """The number of a task at a revision, computed or read."""
        task = self.tasks[task_name]
        backend, method = self._backend()
        data = self.data / dataset
        at = task.results_folder(backend, data.name)
        folder = self.folder / revision / at
        identity = {
            "model": self.checkpoints.fingerprint(revision),
            "data": _digest(data),
            "rules": self.rules.name,
            "method": method,
        }
        path = folder / RESULT
        if path.is_file():
            known = json.loads(path.read_text("utf-8"))
            if known.get("of") == identity:
                return _result(known["result"])
        folder.mkdir(parents=True, exist_ok=True)
        result = task.evaluate(self._open(revision), data, folder, self.rules)
        content = {"of": identity, "result": result.to_json()}
        replace_text(path, json.dumps(content, indent=1) + "\n")
        self._say(revision, task_name, result)
        return result

    def _backend(self) -> tuple[str, str]:
        judge = self._open("")
        return judge.backend, getattr(judge, "method", "")

    def _open(self, revision: str) -> Judge:
        """The judge, with a revision's parameters; "": with those of any."""
        if self._judge is None:
            model = self.checkpoints.open(revision or MAIN)
            self._judge = make_judge(self.checkpoints, model, *self._asked)
            self._opened = revision or MAIN
        elif revision and revision != self._opened:
            model = self.checkpoints.open(revision)
            self._judge = self._judge.with_params(model.run.params)
            self._opened = revision
        return self._judge

    def _say(self, revision: str, task: str, result: Result) -> None:
        self.report(f"{revision} {task}: {shown(self.tasks.get(task), result)}")

    def _summarise(self, results: Results, backend: str) -> None:
        """Adds the results to those that earlier calls wrote for the same weights."""
        path = self.folder / f"palimpsest_{self.rules.name}_{backend}.json"
        known = json.loads(path.read_text("utf-8")) if path.is_file() else {}
        weights = known.get("weights", {})
        revisions = {
            name: of
            for name, of in known.get("revisions", {}).items()
            if name in self.checkpoints.sources
            and weights.get(name) == self.checkpoints.fingerprint(name)
        }
        for name, own in results.items():
            added = {task: result.to_json() for task, result in own.items()}
            revisions[name] = revisions.get(name, {}) | added
        content = {
            "model": self.checkpoints.name,
            "rules": self.rules.name,
            "backend": backend,
            "words_seen": self.checkpoints.seen,
            "weights": {name: self.checkpoints.fingerprint(name) for name in revisions},
            "revisions": revisions,
        }
        replace_text(path, json.dumps(content, indent=1) + "\n")


def find_tasks(rules: Rules, names: Sequence[str]) -> dict[str, Any]:
    """Name -> task, for tasks of the rules.

    Raises:
      UserError: the rules have no task with one of the names.
    """
    known = {n: task for n, task in all_tasks().items() if rules.name in task.rules}
    within = owners()
    for name in names:
        if name not in known and name not in within:
            raise unknown(f"task of {rules.name}", name, [*known, *within])
    if not names:
        return known
    wanted = {within.get(name, name) for name in names}
    return {name: task for name, task in known.items() if name in wanted}


def shown(task: Any, result: Result) -> str:
    """A number with its interval: fractions in per cent, correlations as they are."""
    unit, digits = (1, 3) if getattr(task, "is_correlation", False) else (100, 2)
    text = f"{unit * result.value:.{digits}f}"
    if result.low == result.low:
        text += f" [{unit * result.low:.{digits}f}, {unit * result.high:.{digits}f}]"
    return f"{text} ({result.count:,} items)"


def _digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.iterdir() if path.is_file()):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _result(fields: Mapping[str, Any]) -> Result:
    """The inverse of `Result.to_json`."""

    def number(value: Any) -> float:
        return float("nan") if value is None else value

    ends = {name: number(fields[name]) for name in ("value", "low", "high")}
    more = {name: number(value) for name, value in fields["more"].items()}
    return Result(**{**fields, **ends, "more": more})
