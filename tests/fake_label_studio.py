"""A small Label Studio: projects, tasks and annotations in memory, and the calls that `label-studio-sdk` makes.

Its answers have the fields and forms of those that Label Studio 1.23.2 gave to the same calls.
"""

import itertools
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from poolwise.labelling.label_studio.connection import About, LabelStudioError

TOKEN = "0123456789abcdef0123456789abcdef01234567"
PEOPLE = {1: "anna@example.org", 2: "bert@example.org"}


class Studio:
    """What is on the server, and what people do there.

    Attributes:
        fail: called with the name of each call before it is done; may raise.
    """

    def __init__(self):
        self.projects, self.tasks, self.webhooks = {}, {}, {}
        self._numbers, self._clock = itertools.count(1), itertools.count()
        self.fail = lambda call: None

    def now(self):
        tick = next(self._clock)
        return f"2026-11-17T09:{tick // 60 % 60:02}:{tick % 60:02}.{tick:06}Z"

    # What people do

    def annotate(self, item, label=None, person=1, cancelled=False, control="label"):
        task = next(task for task in self.tasks.values() if task["meta"].get("item") == item)
        value = {"from_name": control, "to_name": "text", "type": "choices", "value": {"choices": [label]}}
        made = {
            "id": next(self._numbers), "completed_by": person, "result": [value] if label else [],
            "was_cancelled": cancelled, "created_at": self.now(), "updated_at": self.now(),
        }  # fmt: skip
        task["annotations"].append(made)
        return made

    def change(self, annotation, label):
        annotation["result"][0]["value"]["choices"] = [label]
        annotation["updated_at"] = self.now()

    def add(self, task, project=None):
        number = next(self._numbers)
        self.tasks[number] = {
            "id": number, "project": project or max(self.projects), "data": task["data"], "meta": task.get("meta", {}),
            "predictions": task.get("predictions", []), "annotations": [],
        }  # fmt: skip
        return number

    def remove_task(self, item):
        number = next(n for n, task in self.tasks.items() if task["meta"].get("item") == item)
        del self.tasks[number]

    @property
    def items(self):
        return [task["meta"]["item"] for task in self.tasks.values() if "item" in task["meta"]]

    def open_items(self):
        """Items of tasks without annotations, in the order in which Label Studio hands them out."""
        waiting = [task for task in self.tasks.values() if not task["annotations"] and task["predictions"]]
        return [task["meta"]["item"] for task in sorted(waiting, key=lambda t: t["predictions"][0]["score"])]

    # What programs do

    def new_project(self, title, config, **settings):
        number = next(self._numbers)
        self.projects[number] = {"id": number, "title": title, "label_config": config, "model_version": "", **settings}
        return self.projects[number]

    def listed(self, project):
        for task in self.tasks.values():
            if task["project"] == project:
                cancelled = sum(entry["was_cancelled"] for entry in task["annotations"])
                yield {
                    **{name: task[name] for name in ("id", "meta", "annotations")},
                    "total_annotations": len(task["annotations"]) - cancelled,
                    "cancelled_annotations": cancelled,
                }


class Direct:
    """The same as `Connection`, without a network."""

    place = "studio.example"

    def __init__(self, studio):
        self.studio = studio

    def _about(self, found):
        return About(found["id"], found["title"], found["label_config"], found.get("sampling", ""))

    def find(self, wanted):
        self.studio.fail("find")
        for number, found in self.studio.projects.items():
            if wanted in (str(number), found["title"]):
                return self._about(found)
        raise LabelStudioError(f"does not have the project {wanted}")

    def create(self, title, config):
        return self._about(self.studio.new_project(title, config))

    def set_config(self, project, config):
        self.studio.fail("set_config")
        self.studio.projects[project]["label_config"] = config

    def tasks(self, project):
        self.studio.fail("tasks")
        return json.loads(json.dumps(list(self.studio.listed(project))))

    def people(self):
        self.studio.fail("people")
        return dict(PEOPLE)

    def send(self, project, tasks):
        for task in tasks:
            self.studio.fail("send")
            self.studio.add(task, project)
        self.studio.fail("sent")

    def use_scores(self, project):
        self.studio.fail("use_scores")
        self.studio.projects[project]["model_version"] = "poolwise"

    def delete(self, task):
        self.studio.fail("delete")
        del self.studio.tasks[task]


class Served:
    """The studio behind HTTP, on the loopback address. Use as a context."""

    def __init__(self, studio):
        calls = self.calls = []
        self.answer = None  # a status that every call gets instead

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _any(handler):
                place = urlsplit(handler.path)
                body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
                calls.append((handler.command, place.path, body.decode()))
                if handler.headers.get("Authorization") != f"Token {TOKEN}":
                    return handler._send(401, {"status_code": 401, "detail": "Invalid token."})
                if self.answer is not None:
                    return handler._send(self.answer, {"status_code": self.answer, "detail": "so it is"})
                query = {name: values[0] for name, values in parse_qs(place.query).items()}
                status, value = route(studio, handler.command, place.path, query, json.loads(body or b"{}"))
                return handler._send(status, value)

            do_GET = do_POST = do_PATCH = do_DELETE = _any

            def _send(handler, status, value):
                text = b"" if value is None else json.dumps(value).encode()
                handler.send_response(status)
                handler.send_header("Content-Type", "application/json")
                handler.send_header("Content-Length", str(len(text)))
                handler.end_headers()
                handler.wfile.write(text)

            def log_message(handler, *args):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()


def route(studio, method, path, query, body):
    """The status and the answer to a call."""
    missing = (404, {"status_code": 404, "detail": "No Project matches the given query."})
    match method, *path.strip("/").split("/")[1:]:
        case "GET", "projects":
            found = list(studio.projects.values())
            if int(query.get("page", 1)) > 1:
                return 404, {"status_code": 404, "detail": "Invalid page."}
            return 200, {"count": len(found), "next": None, "previous": None, "results": found}
        case "POST", "projects":
            config = body.pop("label_config")
            return 201, studio.new_project(body.pop("title"), config, **body)
        case "GET", "projects", number:
            return (200, studio.projects[int(number)]) if int(number) in studio.projects else missing
        case "PATCH", "projects", number:
            studio.projects[int(number)].update(body)
            return 200, studio.projects[int(number)]
        case "POST", "projects", number, "import":
            for task in body:
                studio.add(task, int(number))
            return 201, {"task_count": len(body), "annotation_count": 0, "predictions_count": None}
        case "GET", "tasks":
            size, page = int(query["page_size"]), int(query.get("page", 1))
            found = list(studio.listed(int(query["project"])))
            part = found[(page - 1) * size : page * size]
            if page > 1 and not part:
                return 404, {"status_code": 404, "detail": "Invalid page."}
            return 200, {"total_annotations": 0, "total_predictions": 0, "total": len(found), "tasks": part}
        case "DELETE", "tasks", number:
            del studio.tasks[int(number)]
            return 204, None
        case "GET", "users":
            return 200, [{"id": number, "email": email, "username": ""} for number, email in PEOPLE.items()]
        case "GET", "webhooks":
            return 200, list(studio.webhooks.values())
        case "POST", "webhooks":
            if re.match(r"http://10\.", body["url"]):
                detail = "URL resolves to a reserved network address (block: 10.0.0.0/8)"
                return 403, {"status_code": 403, "detail": detail}
            number = len(studio.webhooks) + 1
            studio.webhooks[number] = {"id": number, **body}
            return 201, studio.webhooks[number]
        case "DELETE", "webhooks", number:
            del studio.webhooks[int(number)]
            return 204, None
    return 404, {"status_code": 404, "detail": f"{method} {path}"}
