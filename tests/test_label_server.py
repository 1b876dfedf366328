"""The server as a process: killed under load, ended, started twice, and with fifty people."""

import os
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import httpx
import processes
import pytest
from labelling_server import ROOT, Page, command, connect, events_of, free_port, write_digits, write_texts
from processes import wait_until

long = pytest.mark.skipif(not os.environ.get("POOLWISE_LONG"), reason="takes minutes: set POOLWISE_LONG=1 to run it")


def children(process):
    """The ids of the processes that the threads of a process have started."""
    return [
        int(child) for path in Path(f"/proc/{process}/task").glob("*/children") for child in open_text(path).split()
    ]


def open_text(path):
    with open(path) as file:
        return file.read()


def runs(process):
    try:
        return open_text(f"/proc/{process}/stat").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Annotator(threading.Thread):
    """Somebody who labels without a break, keeps what is not confirmed, and sends it again, as the script does."""

    def __init__(self, address, number):
        super().__init__(daemon=True)
        self.address, self.number = address, number
        self.acknowledged, self.sent = {}, {}
        self.stopping = threading.Event()
        self.problem = None

    def run(self):
        try:
            with connect(self.address) as client:
                page = None
                waiting = []
                while not self.stopping.is_set():
                    try:
                        page = page or self._enter(client)
                        if page is None:
                            continue
                        for item in page.work(3):
                            request = os.urandom(8).hex()
                            answer = {"request": request, "item": item["id"], "kind": "label", "label": "cat"}
                            self.sent[request] = item["id"]
                            waiting.append(answer)
                        result = page.post("/api/answers", {"answers": waiting})
                        assert result.status_code == 200, result.text
                        for request in result.json()["stored"]:
                            self.acknowledged[request] = self.sent[request]
                        waiting = [one for one in waiting if one["request"] not in self.acknowledged]
                    except httpx.TransportError:
                        time.sleep(0.05)  # the server is away; everything is sent again
        except Exception as error:
            self.problem = error

    def _enter(self, client):
        page = Page(client)
        return page if page.token else None


def kill_again_and_again(folder, times, people=3, texts=1_500):
    """Kill a server under load; what was acknowledged must be in the log, and everything at most once."""
    data = write_texts(folder, [f"text {n}" for n in range(texts)])
    port, crew, workers = free_port(), [], []
    for turn in range(times):
        with command(data, "--classes", "cat,dog", "--encoder", "tfidf", "--port", port, home=folder) as (
            server,
            address,
            _,
        ):
            if not crew:
                crew = [Annotator(address, n) for n in range(people)]
                for one in crew:
                    one.start()
            before = sum(len(one.acknowledged) for one in crew)
            wait_until(lambda: sum(len(one.acknowledged) for one in crew) > before + 5)  # noqa: B023
            time.sleep(0.03 * (turn % 7))
            workers += children(server.pid)
            os.kill(server.pid, signal.SIGKILL)
            server.wait()
    for one in crew:
        one.stopping.set()
    for one in crew:
        one.join(300)
        assert one.problem is None, one.problem
    assert workers
    wait_until(lambda: not any(map(runs, workers)))
    events = [event for event in events_of(data) if event.kind == "label"]
    stored = Counter(event.request_id for event in events)
    acknowledged = {request: item for one in crew for request, item in one.acknowledged.items()}
    assert max(stored.values()) == 1
    assert {event.request_id: event.item for event in events if event.request_id in acknowledged} == acknowledged
    assert not set(stored) - {request for one in crew for request in one.sent}
    return len(acknowledged)


@pytest.mark.slow
def test_killed_under_load_nothing_is_lost_and_nothing_doubled(tmp_path):
    assert kill_again_and_again(tmp_path, 2) > 10


@pytest.mark.slow
@long
@pytest.mark.timeout(3_600)
def test_killed_fifty_times(tmp_path):
    print(kill_again_and_again(tmp_path, 50, texts=30_000), "labels were acknowledged")


@pytest.mark.slow
def test_a_second_server_says_where_the_first_is_and_ctrl_c_ends_all(tmp_path):
    data = write_texts(tmp_path)
    with command(data, "--classes", "cat,dog", "--encoder", "tfidf", home=tmp_path) as (server, address, said):
        assert "Label here: http://localhost:" in said
        wait_until(lambda: children(server.pid))
        workers = children(server.pid)
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_STATE_HOME": str(tmp_path)}
        second = processes.run(["-m", "poolwise", "label", data], env=environment, cwd=ROOT)
        assert second.returncode == 2
        assert f"served already, at {address}/ (process {server.pid}" in second.stderr
        assert "Traceback" not in second.stderr
        with connect(address) as client:
            Page(client).say("0", "cat")
            os.kill(server.pid, signal.SIGINT)
            assert server.wait(300) == 0
        assert "Every label is saved" in server.stdout.read()
        wait_until(lambda: not any(map(runs, workers)))
    assert not (tmp_path / "texts.csv.poolwise" / "server" / "running.json").exists()
    assert [event.item for event in events_of(data) if event.kind == "label"] == ["0"]


def percentile(times, share):
    return sorted(times)[min(len(times) - 1, int(share * len(times)))]


def processor_time(process):
    """Seconds of processor time that a process has used so far."""
    user, system = open_text(f"/proc/{process}/stat").rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def shown(times):
    listed = ", ".join(f"{share:.0%} {1000 * percentile(times, share):.0f} ms" for share in (0.5, 0.95, 0.99))
    return f"{len(times):,} answers: {listed}, slowest {1000 * max(times):.0f} ms"


def timed(times, call):
    began = time.perf_counter()
    answer = call()
    times.append(time.perf_counter() - began)
    return answer


def label_one_by_one(page, labels, pace, number=0):
    """Label as the script of the page does, and ask for the status every four seconds; gives the time of each answer.

    Args:
        page: of a browser.
        labels: how many to give.
        pace: seconds per label.
        number: of the person.
    """
    times, items, asked = [], [], time.monotonic()
    for _ in range(labels):
        began = time.perf_counter()
        if len(items) < 5:
            known = {item["id"] for item in items}
            items += [item for item in timed(times, lambda: page.work(16)) if item["id"] not in known]
        if items:
            item = items.pop(0)
            if "image" in item:
                assert timed(times, lambda: page.client.get(item["image"])).status_code == 200  # noqa: B023
            label = "cat" if number % 2 else "dog"
            answer = timed(times, lambda: page.say(item["id"], label))  # noqa: B023
            assert answer.status_code == 200, answer.text
        if time.monotonic() - asked > 4:
            asked = time.monotonic()
            assert timed(times, lambda: page.client.get("/api/status")).status_code == 200
        time.sleep(max(0.0, pace - (time.perf_counter() - began)))
    return times


def one_person(folder, kind, labels, pace):
    """One person labels; gives the times of all answers, and the server's own processor time per answer."""
    if kind == "texts":
        data = write_texts(folder, [f"text {n} about {'cats' if n % 2 else 'dogs'}" for n in range(2_000)])
    else:
        data = write_digits(folder / "digits", 300)
    encoder = "tfidf" if kind == "texts" else "patches"
    with (
        command(data, "--classes", "cat,dog", "--encoder", encoder, home=folder) as (server, address, _),
        connect(address) as client,
    ):
        page = Page(client)
        wait_until(lambda: page.work(1))
        before = processor_time(server.pid)
        times = label_one_by_one(page, labels, pace)
        for path in ("/", "/progress", "/review", "/team"):
            assert timed(times, lambda: client.get(path)).status_code == 200  # noqa: B023
        own = (processor_time(server.pid) - before) / len(times)
    print(f"one person, {kind}: {shown(times)}; {1000 * own:.1f} ms of the server's processor time each")
    return times, own


@pytest.mark.thorough
def test_an_answer_takes_the_server_a_few_milliseconds(tmp_path):
    """In processor time, which a busy machine does not change."""
    _, own = one_person(tmp_path, "images", labels=40, pace=0.0)
    assert own < 0.02


@pytest.mark.slow
@long
@pytest.mark.parametrize("kind", ["texts", "images"])
def test_one_person_for_a_minute(tmp_path, kind):
    """Sixty labels in a minute, while models train: every answer takes below 50 ms."""
    times, _ = one_person(tmp_path, kind, labels=60, pace=1.0)
    assert max(times) < 0.05


@pytest.mark.slow
@long
def test_fifty_annotators_for_a_minute(tmp_path):
    """One answer per second and person, while a model trains; the slowest in a hundred answers take below 200 ms."""
    data = write_texts(tmp_path, [f"text {n} about {'cats' if n % 2 else 'dogs'}" for n in range(8_000)])
    times, problems = [], []
    with command(data, "--classes", "cat,dog", "--encoder", "tfidf", home=tmp_path) as (server, address, _):

        def annotate(number):
            try:
                with connect(address) as client:
                    page = Page(client)
                    time.sleep(number / 50)
                    times.extend(label_one_by_one(page, 60, 1.0, number))
            except Exception as error:
                problems.append(error)

        before = processor_time(server.pid)
        crew = [threading.Thread(target=annotate, args=(n,)) for n in range(50)]
        for one in crew:
            one.start()
        for one in crew:
            one.join()
        own = (processor_time(server.pid) - before) / max(1, len(times))
    assert not problems
    print(f"fifty people: {shown(times)}; {1000 * own:.1f} ms of the server's processor time each")
    assert percentile(times, 0.99) < 0.2
