"""A jax.profiler trace of a few steps of a run: `train.profile_steps=[10,12]`."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
from etils import epath

from research.distributed import processes


class StepTrace:
    """Traces some steps of training, on the devices of process 0.

    TensorBoard's profile plugin and xprof read the result, FOLDER/plugins/profile/DATE.

    Args:
      steps: the first and the last step, counted from 1; empty: none.
    """

    def __init__(self, steps: Sequence[int], folder: epath.PathLike):
        self._first, self._last = steps or (0, -1)
        if jax.process_index() != 0:
            self._last = -1
        self._folder, self._is_running = str(folder), False

    def call(
        self, number: int, step: Callable[[Any, Any], Any], state: Any, batch: Any
    ) -> Any:
        """The state after a step, which is traced if `number` is one of `steps`.

        The host waits for the device at the start and the end of a trace, so that it
        contains whole steps.
        """
        if not self._first <= number <= self._last:
            return step(state, batch)
        if not self._is_running:
            jax.block_until_ready(state)
            jax.profiler.start_trace(self._folder)
            self._is_running = True
        with jax.profiler.StepTraceAnnotation("train", step_num=number):
            state = step(state, batch)
        if number == self._last:
            jax.block_until_ready(state)
            self.close()
        return state

    def close(self) -> None:
        """Writes the trace, if one has begun."""
        if self._is_running:
            self._is_running = False
            jax.profiler.stop_trace()
            where = f"{self._folder}/plugins/profile"
            processes.print_from_process_0(f"a profile of steps is in {where}")
