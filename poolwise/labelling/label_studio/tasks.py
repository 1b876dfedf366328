"""Batches as tasks of Label Studio: what is shown, what the model says, and which comes first.

Label Studio's "uncertainty sampling" hands out the task with the lowest prediction score first, so the score of a task
is its place in the batch: from just above 0 for the first to 1 for the last.
"""

import base64
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from poolwise.errors import ParameterError
from poolwise.labelling.images import served
from poolwise.labelling.items import Items
from poolwise.labelling.label_studio.forms import Form
from poolwise.labelling.predicted import Predicted
from poolwise.labelling.results import ToLabel

MODEL = "poolwise"
"""The name of our predictions. It stays the same: Label Studio orders tasks by the scores of one name only."""

# Pixels of the longer side of an image that is sent as part of its task.
_LONGEST = 640


def kind_of(items: Items) -> str:
    """What annotators see: a text or an image."""
    if items.texts is not None:
        return "text"
    if items.files is not None:
        return "image"
    raise ParameterError(
        "features have no text and no image to show in Label Studio. Name what they were made from with originals=."
    )


def make_tasks(
    batch: Sequence[ToLabel],
    items: Items,
    uid: str,
    form: Form,
    predicted: Predicted | None = None,
    images_at: str | None = None,
) -> list[dict[str, Any]]:
    """Tasks for Label Studio, the most useful first.

    Args:
        batch: what to label.
        items: the items of the project.
        uid: of the project; by it a task is recognised.
        form: what the tasks are labelled with.
        predicted: what the newest model says.
        images_at: the address of the folder of the images, as Label Studio reaches it; None sends them along.
    """
    tasks = []
    for rank, entry in enumerate(batch):
        said = _prediction(entry.id, items, form, predicted)
        prediction = {"model_version": MODEL, "score": round((rank + 1) / len(batch), 6), "result": said}
        tasks.append({**task(entry.id, items, uid, form, entry.why, images_at), "predictions": [prediction]})
    return tasks


def task(
    item: str, items: Items, uid: str, form: Form, why: str | None = None, images_at: str | None = None
) -> dict[str, Any]:
    """A task without predictions."""
    data = {form.key: _content(item, items, form.kind, images_at), "item": item}
    if why is not None:
        data["why"] = why
    return {"data": data, "meta": {"poolwise": uid, "item": item}}


def _content(item: str, items: Items, kind: str, images_at: str | None) -> str:
    place = items.position[item]
    if kind == "text":
        assert items.texts is not None
        return items.texts[place]
    if images_at is not None:
        return images_at + quote(item, safe="/")
    assert items.files is not None
    picture, media_type = served(items.files[place], _LONGEST)
    return f"data:{media_type};base64,{base64.b64encode(picture).decode()}"


def _prediction(item: str, items: Items, form: Form, predicted: Predicted | None) -> list[Mapping[str, object]]:
    place = items.position[item]
    if predicted is None or place >= len(predicted.ids) or predicted.ids[place] != item:
        return []
    label = predicted.classes[int(predicted.probs[place].argmax())]
    return [*form.result(label)] if label in form.classes else []
