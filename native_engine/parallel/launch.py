"""Starts one process a rank through torchrun's elastic agent, which starts all of them again where one dies.

Knows no model. Everything stays on this machine: the agent meets nobody, and the ranks meet in a file.
"""

from __future__ import annotations

import logging
import os
import pickle
import sys
import tempfile
from pathlib import Path

from torch.distributed import HashStore  # type: ignore[attr-defined]
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.elastic.rendezvous import RendezvousHandler, RendezvousInfo, rendezvous_handler_registry
from torch.distributed.elastic.rendezvous.api import RendezvousStoreInfo
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from native_engine.parallel.job import JOB, REFUSAL, Job, RanksLost

logger = logging.getLogger(__name__)

MAX_RESTARTS = 3
_LOOPBACK = "127.0.0.1"
_BACKEND = "sekisho"


def launch(size: int, job: Job) -> None:
    """Blocks until all ranks have done their work, or have ended after a signal, which they were passed.

    Raises a rank's refusal, or RanksLost.
    """
    with tempfile.TemporaryDirectory(prefix="sekisho-ranks-") as name:
        folder = Path(name)
        (folder / JOB).write_bytes(pickle.dumps(job))
        command = elastic_launch(_settings(size, folder, job.patience), sys.executable)
        try:
            # -P: a folder of our name where the user happens to stand must not be taken for ours.
            command("-P", "-m", "native_engine.parallel.rank", name, str(os.getpid()))
        except SignalException as signalled:
            logger.info("all ranks have ended after %s", signalled.sigval.name)
        except ChildFailedError as fault:
            raise RanksLost(_told(fault)) from fault
        if (refusal := folder / REFUSAL).exists():
            raise pickle.loads(refusal.read_bytes())


def _settings(size: int, folder: Path, patience: float) -> LaunchConfig:
    return LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=size,
        run_id=_BACKEND,
        role="rank",
        rdzv_backend=_BACKEND,
        logs_specs=DefaultLogsSpecs(log_dir=str(folder)),
        max_restarts=MAX_RESTARTS,
        local_addr=_LOOPBACK,
        shutdown_timeout=round(patience),
    )


def _told(fault: ChildFailedError) -> str:
    rank, failure = fault.get_first_failure()
    how = f"killed by {failure.signal_name()}" if failure.exitcode < 0 else f"exit code {failure.exitcode}"
    return (
        f"rank {rank} of the engine ended ({how}), and so it did after {MAX_RESTARTS} restarts; the log above says "
        "why. Run with --tensor-parallel-size 1 to see whether one process can."
    )


class _Alone(RendezvousHandler):
    """The one agent of this machine. torchrun's own kinds open a port to everyone, to meet agents of other machines."""

    def __init__(self, run_id: str) -> None:
        self._run_id, self._store = run_id, HashStore()

    def get_backend(self) -> str:
        return _BACKEND

    def next_rendezvous(self) -> RendezvousInfo:
        return RendezvousInfo(self._store, 0, 1, RendezvousStoreInfo(_LOOPBACK, 0))

    def is_closed(self) -> bool:
        return False

    def set_closed(self) -> None:
        """It is open as long as the process lives."""

    def num_nodes_waiting(self) -> int:
        return 0

    def get_run_id(self) -> str:
        return self._run_id

    def shutdown(self) -> bool:
        return True


rendezvous_handler_registry.register(_BACKEND, lambda parameters: _Alone(parameters.run_id))
