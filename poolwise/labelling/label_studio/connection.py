"""A project on a server of Label Studio, through `label-studio-sdk`. Errors become one sentence with the next step."""

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from typing import Any, Self
from urllib.parse import urlsplit

from poolwise.errors import MissingInputError, ParameterError, PoolwiseError
from poolwise.labelling.label_studio.tasks import MODEL

# Seconds; a server that is busy with an import may take long.
_TIMEOUT = 120.0

# Tasks per page, and what of them is read: images that were sent along are not.
_PAGE = 200
_FIELDS = "id,meta,annotations,total_annotations,cancelled_annotations," + (
    "result,completed_by,was_cancelled,created_at,updated_at"  # of the annotations
)

# Bytes of one request; larger ones are refused by common proxies and by Label Studio's own settings.
_REQUEST = 8 << 20

# A request that changes the server is never repeated: the next check shows whether it was done.
_ONCE = {"max_retries": 0}


class LabelStudioError(PoolwiseError):
    """Label Studio refused something, or does not answer.

    Attributes:
        passing: whether it may work a little later.
    """

    def __init__(self, message: str, *, passing: bool = False) -> None:
        super().__init__(message)
        self.passing = passing


@dataclass(frozen=True)
class About:
    """A project on the server.

    Attributes:
        id: its number.
        title: its name.
        config: its labelling configuration.
        sampling: how it orders tasks.
        shows_predictions: whether annotators see what the model says.
    """

    id: int
    title: str
    config: str
    sampling: str = ""
    shows_predictions: bool = False


class Connection:
    """A server of Label Studio.

    Args:
        url: its address.
        token: an access token of a user, or a legacy token. It is sent to this server only, and kept nowhere.
    """

    def __init__(self, url: str, token: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ParameterError(f"url must be an address such as http://localhost:8080, not {url!r}.")
        if parts.username or parts.password:
            raise ParameterError("url must not have a password in it. Use the variable LABEL_STUDIO_API_KEY.")
        if not token.strip():
            raise MissingInputError(
                "Label Studio needs an access token: copy it from Account & Settings there, and set the variable "
                "LABEL_STUDIO_API_KEY."
            )
        self.url = url.rstrip("/")
        self.place = parts.netloc + parts.path.rstrip("/")
        with _package(), self._errors("the token"):
            import httpx

            package: Any = import_module("label_studio_sdk.client")
            self._http = httpx.Client(timeout=_TIMEOUT, follow_redirects=True)
            try:
                self._client = package.LabelStudio(base_url=self.url, api_key=token.strip(), httpx_client=self._http)
            except BaseException:
                self._http.close()
                raise

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def find(self, wanted: str) -> About:
        """A project by its number or its title."""
        if wanted.isdecimal():
            with self._errors(f"the project {wanted}"):
                return _about(self._client.projects.get(id=int(wanted)))
        with self._errors("the projects"):
            found = [project for project in self._client.projects.list() if project.title == wanted]
        if len(found) == 1:
            return self.find(str(found[0].id))
        if found:
            numbers = ", ".join(str(project.id) for project in found)
            raise ParameterError(f"several projects are called {wanted!r}. Name one by its number: {numbers}.")
        raise ParameterError(f"{self.url} has no project called {wanted!r}. Make it with --create {wanted!r}.")

    def create(self, title: str, config: str) -> About:
        """Make a project that hands out tasks in our order, and does not show annotators what the model says."""
        if not 3 <= len(title.strip()) <= 50:
            raise ParameterError(f"a title must have 3 to 50 characters in Label Studio, not {title!r}.")
        with self._errors("the new project"):
            if any(project.title == title.strip() for project in self._client.projects.list()):
                raise ParameterError(
                    f"there is a project {title!r} already. Name it with --project {title!r}, or choose another title."
                )
            made = self._client.projects.create(
                title=title.strip(),
                label_config=config,
                sampling="Uncertainty sampling",
                show_collab_predictions=False,
                request_options=_ONCE,
            )
        return self.find(str(made.id))

    def set_config(self, project: int, config: str) -> None:
        """Change the labelling configuration."""
        with self._errors(f"the labelling configuration of project {project}"):
            self._client.projects.update(id=project, label_config=config)

    def tasks(self, project: int) -> list[dict[str, Any]]:
        """All tasks, with their annotations and without what they show."""
        with self._errors(f"the tasks of project {project}"):
            found = self._client.tasks.list(project=project, fields="all", include=_FIELDS, page_size=_PAGE)
            return [_plain(task) for task in found]

    def people(self) -> dict[int, str]:
        """The names of users by their numbers; nobody, if the token may not see them."""
        try:
            with self._errors("the users"):
                return {int(user.id): str(user.email or user.username) for user in self._client.users.list()}
        except LabelStudioError as error:
            if error.passing:
                raise
            return {}

    def send(self, project: int, tasks: Sequence[Mapping[str, Any]]) -> None:
        """Import tasks, in requests of a moderate size."""
        for part in _parts(tasks):
            with self._errors(f"{len(part):,} new tasks"):
                self._client.projects.import_tasks(
                    id=project,
                    request=part,
                    commit_to_project=True,
                    request_options=_ONCE,
                )

    def use_scores(self, project: int) -> None:
        """Let the project order its tasks by our scores, once there are any."""
        with self._errors(f"the settings of project {project}"):
            if self._client.projects.get(id=project).model_version != MODEL:
                self._client.projects.update(id=project, model_version=MODEL)

    def delete(self, task: int) -> None:
        """Delete a task."""
        with self._errors(f"the task {task}"):
            self._client.tasks.delete(id=str(task))

    def add_webhook(self, project: int, url: str, headers: Mapping[str, str]) -> int:
        """Ask to be told about annotations and tasks; returns the number of the webhook."""
        with self._errors("the webhook"):
            for hook in self._client.webhooks.list(project=str(project)):
                if hook.url == url and hook.id is not None:  # left by a process that was killed
                    self._client.webhooks.delete(id=hook.id)
            made = self._client.webhooks.create(
                url=url,
                project=project,
                headers=dict(headers),
                is_active=True,
                send_payload=False,
                send_for_all_actions=True,
                request_options=_ONCE,
            )
            return int(made.id or 0)

    def remove_webhook(self, number: int) -> None:
        """Remove a webhook."""
        with self._errors("the webhook"):
            self._client.webhooks.delete(id=number)

    @contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        import httpx
        from label_studio_sdk.core.api_error import ApiError

        try:
            yield
        except httpx.TimeoutException as error:
            raise LabelStudioError(
                f"{self.url} does not answer in time. Try again: nothing is sent twice.", passing=True
            ) from error
        except httpx.HTTPError as error:
            raise LabelStudioError(
                f"{self.url} cannot be reached ({error}). Is Label Studio running there? Then run this again.",
                passing=True,
            ) from error
        except ApiError as error:
            raise self._refused(what, error.status_code or 0, error.body) from error
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise LabelStudioError(f"{self.url} does not answer as Label Studio does. Check url=.") from error

    def _refused(self, what: str, status: int, body: object) -> LabelStudioError:
        reason = " ".join(str(_reason(body)).split())[:300]
        if status == 401:
            return LabelStudioError(
                f"{self.url} does not accept the token ({reason}). Copy a new one from Account & Settings there. "
                "Legacy tokens work only if the organisation allows them."
            )
        if status == 403 and "reserved network" in reason:
            return LabelStudioError(
                f"{self.url} does not call addresses of its own machine or network. Start it with "
                "SSRF_PROTECTION_ENABLED=false, or use --watch without --webhook."
            )
        if status == 403:
            return LabelStudioError(f"{self.url} does not allow this user to see or change {what} ({reason}).")
        if status == 404:
            return LabelStudioError(
                f"{self.url} does not have {what}. Check --project, or make a new project with --create."
            )
        if status >= 500 or status == 429:
            return LabelStudioError(
                f"{self.url} failed with {what} (error {status}: {reason}). Try again: nothing is sent twice.",
                passing=True,
            )
        return LabelStudioError(f"{self.url} refused {what} (error {status}: {reason}).")


@contextmanager
def _package() -> Iterator[None]:
    """The package warns about its own use of others; that is not for our users."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        except ImportError as error:
            raise MissingInputError(
                f"Label Studio needs a package that is not installed ({error}). Install it with: pip install "
                "'poolwise[label-studio]'"
            ) from error


def _about(project: Any) -> About:
    shown = bool(project.show_collab_predictions)
    return About(int(project.id), str(project.title), str(project.label_config or ""), str(project.sampling), shown)


def _plain(value: Any) -> Any:
    """A value as it came, whatever classes the package made of it."""
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return {name: _plain(part) for name, part in value} if hasattr(value, "model_fields_set") else value


def _reason(body: object) -> object:
    if isinstance(body, Mapping):
        return body.get("validation_errors") or body.get("detail") or body
    return body


def _parts(tasks: Sequence[Mapping[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    part: list[dict[str, Any]] = []
    size = 0
    for task in tasks:
        length = len(json.dumps(task))
        if part and size + length > _REQUEST:
            yield part
            part, size = [], 0
        part.append(dict(task))
        size += length
    if part:
        yield part
