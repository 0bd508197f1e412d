"""Trials on a Ray cluster: each is a task in a worker process of its own, on any node that has the resources.

Messages go through an actor on the scheduler's node, and the outcome comes back as the result of the task. Ray ends all
of them when the scheduler dies.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from sentattn.errors import Fault, RunError
from sentattn.sweep.execution.callbacks import RunningTrial
from sentattn.sweep.execution.engines import Engine, Message, exited, failed, ray_node
from sentattn.sweep.execution.engines.ray_cluster import (
    Node,
    RaySlot,
    check_nodes,
    on_node,
    prepare_nodes,
    reason_of,
    require_answer,
)
from sentattn.sweep.execution.trial_source import TrialOutcome

SENT = ("WANDB_", "MLFLOW_")
"""Beginnings of the variables that trials get from the scheduler; others are those of their node."""
PATIENCE = 10.0
"""Seconds in which trials that were killed end."""
INTERVAL, SILENCE = 10.0, 30.0
"""Seconds between two checks whether the head answers, and after which one that does not ends the sweep: after 60 Ray
ends this process with a message of its own."""


@dataclass
class _Worker:
    """A trial, the result of its task, and whether it has left Ray's queue."""

    trial: RunningTrial
    result: Any
    has_begun: bool = False


class RayEngine(Engine):
    """Runs trials as tasks of the cluster that this process is connected to.

    Args:
        module: The module that trials run, as in `LocalEngine`.
        studies: For each study the arguments that all its trials share.
        log: File for the output of the preparation, in the study's folder, which all nodes must see.
        nodes: The nodes of the cluster, which are checked.
    """

    def __init__(self, module: str, studies: Sequence[Sequence[str]], log: Path, nodes: Sequence[Node]) -> None:
        variables = {name: value for name, value in os.environ.items() if name.startswith(SENT)}
        self._context = ray_node.WorkerContext(module, os.getcwd(), variables)
        self._studies = studies
        self._log = log.absolute()
        self._nodes = nodes
        self._running: dict[int, _Worker] = {}
        self._started = 0
        self._mailbox: Any = None
        self._run_trial: Any = None
        self._head = ""
        self._checked = self._answered = 0.0
        self._done: deque[tuple[int | None, Future[Any]]] = deque()  # a trial, or None for the mailbox
        self._wakeup, self._wake = os.pipe()
        os.set_blocking(self._wakeup, False)

    def __exit__(self, *_: object) -> None:
        import ray

        with suppress(ray.exceptions.RayError):
            for worker in self._running.values():
                ray.cancel(worker.result, force=True, recursive=False)
            if results := [worker.result for worker in self._running.values()]:
                ray.wait(results, num_returns=len(results), timeout=PATIENCE)
        ray.shutdown()
        os.close(self._wakeup)
        os.close(self._wake)

    def prepare(self) -> None:
        """Checks all nodes, prepares the data on each, and starts the actor.

        Raises:
            SettingError: If a node has other versions, or does not see the study's folder.
            UserError: If the data is unusable.
            RunError: If trials cannot be started on a node.
        """
        import ray

        check_nodes(self._nodes, self._log.parent)
        prepare_nodes(self._nodes, self._context, self._studies, self._log)
        context = ray.get_runtime_context()
        here = on_node(context.get_node_id())
        self._mailbox = ray.remote(ray_node.Mailbox).options(num_cpus=0, scheduling_strategy=here).remote()
        self._run_trial = ray.remote(max_retries=0, max_calls=1)(ray_node.run_trial)
        self._head = context.gcs_address
        self._checked = self._answered = time.monotonic()
        self._listen()

    def start(self, trial: RunningTrial) -> None:
        """Puts a trial into Ray's queue, from which it begins on a node with free resources."""
        slot = trial.slot
        assert isinstance(slot, RaySlot)
        task = replace(trial.task, folder=trial.task.folder.absolute())
        self._started += 1
        run = self._run_trial.options(num_cpus=slot.threads, num_gpus=slot.num_gpus)
        result = run.remote(self._context, task, slot.environment(), self._mailbox, self._started)
        self._running[self._started] = _Worker(trial, result)
        self._notice(self._started, result)

    def messages(self, timeout: float | None, wakeup: int) -> Iterator[tuple[RunningTrial, Message]]:
        """Yields messages of trials; see `Engine.messages`."""
        wait([wakeup, self._wakeup], INTERVAL if timeout is None else min(timeout, INTERVAL))
        with suppress(BlockingIOError):
            os.read(self._wakeup, 1 << 10)
        for worker in self._running.values():
            if not worker.has_begun:  # the time in Ray's queue does not count
                worker.trial.since = time.monotonic()
        while self._done:
            number, future = self._done.popleft()
            if number is None:
                yield from self._received(future)
            else:
                worker = self._running.pop(number)
                yield worker.trial, self._outcome(worker.trial, future)
        self._require_head()

    def _require_head(self) -> None:
        """Checks every `INTERVAL` seconds whether the head of the cluster answers.

        Raises:
            RunError: If it has not for `SILENCE` seconds.
        """
        if time.monotonic() - self._checked < INTERVAL:
            return
        try:
            require_answer(self._head)
            self._answered = time.monotonic()
        except OSError as error:
            if time.monotonic() - self._answered >= SILENCE:
                message = f"The head of the Ray cluster, {self._head}, does not answer; the same command resumes."
                raise RunError(Fault("engine.address", "network", message)) from error
        self._checked = time.monotonic()

    def reply(self, trial: RunningTrial, *, prune: bool) -> None:
        """Answers a report; a trial that has died meanwhile needs no answer."""
        for number in self._numbers(trial):
            self._mailbox.reply.remote(number, prune)

    def stop(self, trial: RunningTrial) -> None:
        """Interrupts a trial as Ctrl-C does, so that a training stops after its step."""
        self._cancel(trial, force=False)

    def kill(self, trial: RunningTrial) -> None:
        """Ends the worker of a trial, with all processes that it has started."""
        self._cancel(trial, force=True)

    def _cancel(self, trial: RunningTrial, *, force: bool) -> None:
        import ray

        for number in self._numbers(trial):
            ray.cancel(self._running[number].result, force=force, recursive=False)

    def _numbers(self, trial: RunningTrial) -> list[int]:
        return [number for number, worker in self._running.items() if worker.trial is trial]

    def _listen(self) -> None:
        self._notice(None, self._mailbox.receive.remote())

    def _notice(self, number: int | None, result: Any) -> None:
        """Lets `messages` handle a result when it is there; Ray calls back in a thread of its own."""

        def done(future: Future[Any]) -> None:
            self._done.append((number, future))
            os.write(self._wake, b"\0")

        result.future().add_done_callback(done)

    def _received(self, future: Future[Any]) -> Iterator[tuple[RunningTrial, Message]]:
        import ray

        try:
            messages = future.result()
        except ray.exceptions.RayError as error:
            message = "The connection to the trials on Ray was lost; the same command resumes."
            raise RunError(Fault("engine", "failed", message)) from error
        self._listen()
        for number, message in messages:
            if (worker := self._running.get(number)) is None:
                continue
            if message is None:
                worker.has_begun = True
            else:
                yield worker.trial, message

    def _outcome(self, trial: RunningTrial, future: Future[Any]) -> TrialOutcome:
        """Returns how a trial has ended whose task has ended."""
        import ray

        try:
            code, outcome = future.result()
        except (ray.exceptions.NodeDiedError, ray.exceptions.ObjectLostError):
            return failed(trial, "its node has died", lost=not trial.killed)
        except ray.exceptions.OutOfMemoryError:
            return failed(trial, "Ray ended it because its node ran out of memory")
        except ray.exceptions.WorkerCrashedError:
            return failed(trial, "its process has died")
        except ray.exceptions.RayError as error:
            return failed(trial, f"its task on Ray has failed: {reason_of(error)}")
        return outcome or exited(trial, code)
