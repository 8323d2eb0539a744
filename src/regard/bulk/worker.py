"""A process that makes shards: `python -m regard.bulk.worker`, told what to do on stdin.

It ends as soon as stdin does, in the middle of a shard too, so that none outlives the command that
started it, however that ended.
"""

import json
import os
import queue
import signal
import sys
import threading
from typing import Any

from regard.bulk.job import answer, loaded
from regard.system.processes import failure

END = "end"
"""What it is told when there is nothing more to do."""


def _main() -> None:
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as out:
        os.dup2(2, 1)  # what a library prints must not come between

        def say(**told: Any) -> None:
            out.write(json.dumps(told) + "\n")
            out.flush()

        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command is told, and ends this process
        heard: queue.Queue[str] = queue.Queue()
        threading.Thread(target=_hear, args=(heard,), daemon=True).start()
        try:
            model = loaded(json.loads(heard.get()))
        except Exception as error:
            say(**failure(error))
            return
        say(ready=True)
        while (line := heard.get().strip()) != END:
            say(**answer(model, json.loads(line), lambda lines: say(lines=lines)))


def _hear(heard: "queue.Queue[str]") -> None:
    """Take lines as they come; where no more can come, this process is nobody's."""
    with os.fdopen(os.dup(0), encoding="utf-8") as given:
        for line in given:
            heard.put(line)
            if line.strip() == END:
                return
    os._exit(1)


if __name__ == "__main__":
    _main()
    sys.stderr.flush()
    os._exit(0)  # not to wait for a thread that listens
