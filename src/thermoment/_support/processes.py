"""Functions of this package, called in processes of their own with arguments that JSON can write.

Such a process is a new Python that is told by its stdin what to call. It does not import the `__main__` of the program
that started it, as multiprocessing would, so a script needs no guard around its calls; and it inherits no threads of
JAX, as a fork would. It ends when its stdin does: so it ends with the process that started it, however that one ends.
"""

import json
import os
import subprocess
import sys
from contextlib import suppress
from importlib import import_module
from queue import SimpleQueue
from threading import Thread
from typing import Any


class Processes:
    """Processes that have imported a module and wait for calls of its functions.

    They may be fewer than asked for where the system does not start more. One that fails says nothing any more, neither
    here nor on stderr: whoever asked does the work, and meets the error if there is one.
    """

    def __init__(self, count: int, module: str) -> None:
        paths = [os.fspath(path) for path in sys.path]
        code = f"import sys; sys.path[:] = {paths!r}; from {__name__} import serve; serve({module!r})"
        self._started: list[subprocess.Popen[str]] = []
        # Without an interpreter that takes -c, as in a program that was packed into one file, there are none.
        if not sys.executable or getattr(sys, "frozen", False):
            return
        with suppress(OSError):
            for _ in range(count):
                self._started.append(
                    subprocess.Popen(
                        [sys.executable, "-c", code],
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        stderr=subprocess.DEVNULL,
                        text=True,
                        encoding="utf-8",
                    )
                )

    def __len__(self) -> int:
        return len(self._started)

    def ask(self, number: int, function: str, *arguments: Any) -> None:
        """Has process `number` call a function of its module, after what it was asked before."""
        stdin = self._started[number].stdin
        assert stdin is not None
        with suppress(OSError):  # it has died: there will be no answer
            stdin.write(json.dumps([function, arguments]) + "\n")
            stdin.flush()

    def answer(self, number: int) -> Any:
        """What the function returned, of the first call that was not answered before. None where the process died."""
        stdout = self._started[number].stdout
        assert stdout is not None
        line = stdout.readline()
        return json.loads(line) if line.endswith("\n") else None

    def end(self) -> None:
        """Ends all of them, whatever they are doing."""
        for process in self._started:
            process.kill()
        for process in self._started:
            with suppress(OSError):  # an unwritten call to one that died
                process.__exit__(None, None, None)
        self._started.clear()


def serve(module: str) -> None:
    """What such a process does: it calls functions of `module`, until its stdin ends."""
    calls: SimpleQueue[str] = SimpleQueue()

    def listen() -> None:
        for line in sys.stdin:
            calls.put(line)
        os._exit(0)  # in the middle of a call: nobody waits for it any more

    Thread(target=listen, daemon=True).start()
    functions = import_module(module)
    while True:
        name, arguments = json.loads(calls.get())
        print(json.dumps(getattr(functions, name)(*arguments)), flush=True)
