"""One rank's process, as the elastic agent runs it: `python -m native_engine.parallel.rank FOLDER LAUNCHER`."""

from __future__ import annotations

import os
import pickle
import socket
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from native_engine.parallel.job import JOB, REFUSAL, Job, Place

_LOOK_EVERY = 0.5


def main() -> None:
    folder, launcher = Path(sys.argv[1]), int(sys.argv[2])
    if (folder / REFUSAL).exists():  # a rank has said so already, and was started again like the others
        return
    _end_with(launcher)
    _stay_on_this_machine()
    job: Job = pickle.loads((folder / JOB).read_bytes())
    start = os.environ["TORCHELASTIC_RESTART_COUNT"]
    place = Place(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), folder / f"start-{start}")
    try:
        job.work(place, *job.arguments)
    except job.refusals as refusal:
        with suppress(FileExistsError), (folder / REFUSAL).open("xb") as file:
            pickle.dump(refusal, file)
        sys.exit(1)  # so that all ranks are ended


def _end_with(launcher: int) -> None:
    """However the launcher ends: it leads the process group that is killed in an emergency, and we are not in that."""

    def watch() -> None:
        while os.getppid() == launcher:
            time.sleep(_LOOK_EVERY)
        os._exit(1)

    threading.Thread(target=watch, name="launcher-watch", daemon=True).start()


def _stay_on_this_machine() -> None:
    """Ranks trust whoever speaks to them: they listen on the loopback interface only."""
    loopback = next(name for _, name in socket.if_nameindex() if name.startswith("lo"))
    for library in ("GLOO", "NCCL"):
        os.environ.setdefault(f"{library}_SOCKET_IFNAME", loopback)


if __name__ == "__main__":
    main()
