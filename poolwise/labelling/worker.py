"""The background process that trains and prepares the next batch while people label, and how the server talks to it.

The two are joined by pipes. The server sends one line of JSON at the start, and then how many people are there. The
process answers with what it is doing. When the server ends, however it ends, the pipe closes and the process ends too.
What it was doing is done again the next time: nothing is stored before it is complete.
"""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import IO, Any

from poolwise.errors import PoolwiseError
from poolwise.labelling.project import Project

# Seconds between two checks of the store.
_PAUSE = 0.3

# Labels for the first model, and at least for each later one.
_FIRST, _LEAST = 10, 5

# Items per person that should be waiting.
_WAITING = 10

# Seconds before a process that has crashed is started again.
_AGAIN = 10.0


class Rounds:
    """Decides when it is time for another model and batch, and makes them.

    Args:
        project: the project.
        tell: called with what is being done.
    """

    def __init__(self, project: Project, tell: Callable[[Mapping[str, Any]], None]) -> None:
        self._project, self._tell = project, tell
        self.people = 1
        self._tried = -1  # the last event when a round was tried
        self._reviewed = self._compared = 0

    def due(self) -> bool:
        """Whether a new model or batch would be of use now."""
        store, size = self._project.store, self._project.description.batch_size
        last = store.last_event()
        if last == self._tried:
            return False
        batches = store.batches(last=2)
        if not batches or (self._tried < 0 and batches[-1].settings.get("waiting")):
            return True  # there is none, or one that was drawn at random because nobody wanted to wait
        fold = store.fold()
        waiting = {item for batch in batches for item in batch.ids if item not in fold.items}
        new = sum(
            event.item is not None and event.kind != "rename-class" for event in store.events(batches[-1].after_event)
        )
        if not new:
            return False
        first = not store.models(last=1) and new >= _FIRST
        return first or new >= max(_LEAST, size // 2) or len(waiting) < min(size, _WAITING * self.people)

    def step(self) -> bool:
        """Do what is due, and return whether there was anything."""
        if self.due():
            self._round()
            return True
        models = self._project.store.models(last=1)
        if not models or models[-1].number == self._reviewed:
            return False
        self._second_thoughts()
        self._reviewed = models[-1].number
        return True

    def give_up(self) -> None:
        """Do nothing until there are new labels: what was tried has failed."""
        self._tried = self._project.store.last_event()
        models = self._project.store.models(last=1)
        self._reviewed = models[-1].number if models else 0

    def _round(self) -> None:
        tried = self._project.store.last_event()
        size = max(self._project.description.batch_size, _WAITING * self.people)
        self._tell({"doing": "training", "stage": "reading the labels"})

        def report(stage: str, done: int, total: int) -> None:
            self._tell({"doing": "training", "stage": stage, "done": done, "total": total})

        self._project.prepare(size, report=report)
        self._tried = tried
        self._tell({"doing": None, "renewed": True})

    def _second_thoughts(self) -> None:
        """What is not urgent: labels to look at again, and how many labels were saved."""
        from poolwise.labelling.review import review
        from poolwise.labelling.saved import FEW_RANDOM, estimate_saved

        def going() -> bool:
            return not self.due()

        self._tell({"doing": "reviewing", "stage": "looking for labels to check"})
        found = review(self._project, going)
        if found is not None:
            found.save(self._project.folder)
        checks = self._project.store.models(last=1)[-1].checked
        if checks >= max(FEW_RANDOM, 1.25 * self._compared):
            self._tell({"doing": "reviewing", "stage": "comparing with random labels"})
            saved = estimate_saved(self._project, going)
            if saved is not None:
                saved.save(self._project.folder)
                self._compared = checks
        self._tell({"doing": None, "renewed": True})


class Worker:
    """The background process, as the server sees it.

    Args:
        place: what `Project.open` needs: data, project, database and model.
        renewed: called when there is a new model or batch.
    """

    def __init__(self, place: Mapping[str, str | None], renewed: Callable[[], None]) -> None:
        self._place, self._renewed = place, renewed
        self._process: subprocess.Popen[str] | None = None
        self._ending = threading.Event()
        self._told = 0
        self._thread = threading.Thread(target=self._run, name="worker", daemon=True)
        self.doing: Mapping[str, Any] = {"doing": "starting"}

    def start(self) -> None:
        """Start the process."""
        self._thread.start()

    @property
    def process(self) -> int | None:
        """The id of the process, None while there is none."""
        return None if self._process is None else self._process.pid

    def people(self, count: int) -> None:
        """Say how many people are labelling."""
        if count != self._told and self._process is not None and self._process.stdin is not None:
            self._told = count
            with suppress(OSError, ValueError):
                self._process.stdin.write(json.dumps({"people": count}) + "\n")
                self._process.stdin.flush()

    def stop(self, patience: float = 3.0) -> None:
        """End the process. What it has not finished is done again the next time."""
        self._ending.set()
        process = self._process
        if process is None:
            return
        with suppress(OSError, ValueError):
            if process.stdin is not None:
                process.stdin.close()
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(patience)
        if process.stdout is not None:
            process.stdout.close()

    def _run(self) -> None:
        while not self._ending.is_set():
            self._once()
            if not self._ending.wait(_AGAIN):
                self.doing = {"doing": "starting"}

    def _once(self) -> None:
        paths = [path or os.getcwd() for path in sys.path]
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "poolwise.labelling.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONIOENCODING": "utf-8"},
            start_new_session=True,  # Ctrl-C is for the server, which ends this process in its own time
        )
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(OSError, ValueError):
            process.stdin.write(json.dumps(dict(self._place)) + "\n")
            process.stdin.flush()
        self._told = 0
        with suppress(ValueError):  # the pipe was closed
            for line in process.stdout:
                self._hear(line)
        code = process.wait()
        if not self._ending.is_set():
            said = self.doing.get("error") or f"the background process ended unexpectedly (exit code {code})"
            self.doing = {"doing": None, "error": said}

    def _hear(self, line: str) -> None:
        try:
            message = json.loads(line)
        except ValueError:
            return
        if isinstance(message, dict):
            self.doing = message
            if message.get("renewed"):
                self._renewed()


def main(server: IO[str], out: IO[str]) -> None:
    """Work until the server ends.

    Args:
        server: what the server says.
        out: what it hears.
    """
    os.nice(10) if hasattr(os, "nice") else None
    place = json.loads(server.readline())
    lock = threading.Lock()

    def tell(message: Mapping[str, Any]) -> None:
        with lock, suppress(OSError, ValueError):
            print(json.dumps(dict(message)), file=out, flush=True)

    project = Project.open(
        place["data"], project=place["project"], create=False, database=place["database"], model=place["model"]
    )
    rounds = Rounds(project, tell)

    def listen() -> None:
        for line in server:
            with suppress(ValueError, KeyError, TypeError):
                rounds.people = max(1, int(json.loads(line)["people"]))
        os._exit(0)  # the server has ended

    threading.Thread(target=listen, daemon=True).start()
    tell({"doing": None})
    while True:
        try:
            busy = rounds.step()
        except PoolwiseError as error:
            tell({"doing": None, "error": str(error)})
            rounds.give_up()
            busy = False
        if not busy:
            time.sleep(_PAUSE)


if __name__ == "__main__":
    # What libraries print must not get between the messages.
    messages = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    main(sys.stdin, messages)
