"""Data to label, label files and exports: what is found in them, and what hostile ones cannot do."""

import csv
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from poolwise.cli.projects import read_classes
from poolwise.errors import DataMismatchError, FileError, LabelError, ParameterError
from poolwise.labelling import images
from poolwise.labelling.adding import plan
from poolwise.labelling.changes import notice_changes
from poolwise.labelling.exports import export
from poolwise.labelling.items import Items, open_items
from poolwise.labelling.store import Event, Store
from poolwise.labelling.store.events import Fold
from poolwise.labelling.tables import plain_cell, read_labels, safe_cell, write_table


def picture(path, size=(8, 6), colour=(200, 10, 10)):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path)


class TestItems:
    @pytest.mark.parametrize(
        ("content", "text", "id", "ids"),
        [
            ("text\na b\nc d\n", "text", None, ["0", "1"]),
            ("id,text\nx,a b\ny,c d\n", "text", "id", ["x", "y"]),
            ("number;topic;article\n1;sport;a long text\n2;news;another text\n", "article", None, ["0", "1"]),
            ("ticket_id,kind,message\n7,a,hello you\n8,b,good day\n", "message", "ticket_id", ["7", "8"]),
            ("user_id,body\n7,hello you\n7,good day\n", "body", None, ["0", "1"]),
            ("ID,Text\n7,hello\n9,good\n", "Text", "ID", ["7", "9"]),
        ],
    )
    def test_columns_are_found_and_said(self, tmp_path, content, text, id, ids):
        (tmp_path / "x.csv").write_text(content)
        items = open_items(tmp_path / "x.csv")
        assert (items.kind, items.text, items.id, list(items.ids)) == ("text", text, id, ids)
        assert repr(text) in " ".join(items.said)
        assert (repr(id) if id else "row") in " ".join(items.said)

    def test_columns_can_be_named(self, tmp_path):
        (tmp_path / "x.csv").write_text("id,text,title,key\n1,a,long title,k1\n2,b,another title,k2\n")
        items = open_items(tmp_path / "x.csv", text="title", id="key")
        assert list(items.texts) == ["long title", "another title"]
        assert list(items.ids) == ["k1", "k2"]
        with pytest.raises(FileError, match=r"no column 'body'.*text, title"):
            open_items(tmp_path / "x.csv", text="body")

    @pytest.mark.parametrize("ending", [".jsonl", ".parquet"])
    def test_json_lines_and_parquet(self, tmp_path, ending):
        write_table(tmp_path / f"x{ending}", ["id", "review"], [[1, "fine"], [2, None], [3, "bad"]])
        items = open_items(tmp_path / f"x{ending}")
        assert list(items.ids) == ["1", "2", "3"]
        assert list(items.texts) == ["fine", "", "bad"]
        assert items.empty().tolist() == [False, True, False]
        assert "1 row has no text and is never offered" in " ".join(items.said)

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("id,text\n1,a\n1,b\n", "different id"),
            ("a,b\n1,2\n", "no column of texts"),
            ("text\n", "at least one row"),
        ],
    )
    def test_what_cannot_be_read_is_said(self, tmp_path, content, message):
        (tmp_path / "x.csv").write_text(content)
        with pytest.raises(FileError, match=message):
            open_items(tmp_path / "x.csv", id="id" if "id" in content else None)

    def test_a_folder_of_images(self, tmp_path):
        for name in ("b.png", "a/x.jpg", "a/y.PNG", ".hidden/z.png"):
            picture(tmp_path / "photos" / name)
        (tmp_path / "photos" / "notes.txt").write_text("no image")
        picture(tmp_path / "secret.png")
        (tmp_path / "photos" / "link.png").symlink_to(tmp_path / "secret.png")
        (tmp_path / "photos" / "out").symlink_to(tmp_path, target_is_directory=True)
        items = open_items(tmp_path / "photos")
        assert list(items.ids) == ["a/x.jpg", "a/y.PNG", "b.png"]
        assert "1 image is left out" in " ".join(items.said)
        with pytest.raises(ParameterError, match="folder of images"):
            open_items(tmp_path / "photos", text="text")

    def test_image_files_of_a_table_must_be_in_its_folder(self, tmp_path):
        picture(tmp_path / "in" / "a.png")
        picture(tmp_path / "b.png")
        (tmp_path / "in" / "x.csv").write_text("file\na.png\n")
        assert list(open_items(tmp_path / "in" / "x.csv").ids) == ["a.png"]
        for outside in ("../b.png", str(tmp_path / "b.png")):
            (tmp_path / "in" / "x.csv").write_text(f"file\n{outside}\n")
            with pytest.raises(FileError, match="not in the folder"):
                open_items(tmp_path / "in" / "x.csv")

    def test_features_with_their_originals(self, tmp_path):
        np.save(tmp_path / "texts.npy", np.eye(3, 4, dtype=np.float32))
        assert "numbers" in " ".join(open_items(tmp_path / "texts.npy").said)
        (tmp_path / "texts.csv").write_text("id,text\nx,one\ny,two\nz,three\n")
        items = open_items(tmp_path / "texts.npy")
        assert (items.kind, list(items.ids), list(items.texts)) == (
            "features",
            ["x", "y", "z"],
            ["one", "two", "three"],
        )
        (tmp_path / "texts.csv").write_text("id,text\nx,one\ny,two\n")
        with pytest.raises(FileError, match=r"3 rows.*2 items"):
            open_items(tmp_path / "texts.npy")

    def test_features_find_the_only_table_of_their_length(self, tmp_path):
        np.save(tmp_path / "embeddings.npy", np.eye(3))
        (tmp_path / "messages.csv").write_text("text\none\ntwo\nthree\n")
        (tmp_path / "other.csv").write_text("text\none\n")
        assert open_items(tmp_path / "embeddings.npy").originals == tmp_path / "messages.csv"
        items = open_items(tmp_path / "embeddings.npy", originals=tmp_path / "messages.csv")
        assert items.shown("1") == "two"

    def test_pickled_features_are_refused(self, tmp_path):
        np.save(tmp_path / "x.npy", np.array([[{}]], object), allow_pickle=True)
        with pytest.raises(FileError, match="never loaded"):
            open_items(tmp_path / "x.npy")


class TestChanges:
    def reopen(self, path, store, content):
        path.write_text(content)
        return notice_changes(open_items(path), store, str(path))

    def test_are_noticed_and_said_once(self, tmp_path):
        path = tmp_path / "x.csv"
        with Store.open(tmp_path / "labels.db") as store:
            assert self.reopen(path, store, "id,text\na,1x\nb,2x\nc,3x\n").first
            store.append(Event("label", "b", "cat"), Event("label", "c", "cat"))
            changes = self.reopen(path, store, "id,text\nd,4x\nb,changed\na,1x\n")
            assert (changes.appended, changes.edited, changes.removed) == (["d"], ["b"], ["c"])
            said = " ".join(changes.sentences())
            assert "1 new item since" in said
            assert "edited since last time: b; 1 of them have labels" in said
            assert "1 item is gone from the data: c" in said
            assert self.reopen(path, store, path.read_text()).sentences() == []
            assert self.reopen(path, store, "id,text\nd,4x\nb,changed\na,1x\nc,3x\n").removed == []

    def test_rows_that_move_are_refused_where_items_are_called_by_their_row(self, tmp_path):
        path = tmp_path / "x.csv"
        with Store.open(tmp_path / "labels.db") as store:
            self.reopen(path, store, "text\none\ntwo\nthree\nfour\n")
            assert self.reopen(path, store, "text\none\ntwo\nthree\nfour\nfive\n").appended == ["4"]
            assert self.reopen(path, store, "text\none\n2\nthree\nfour\nfive\n").edited == ["1"]
            for content in ("text\n2\none\nthree\nfour\nfive\n", "text\none\nthree\nfour\nfive\n"):
                with pytest.raises(DataMismatchError, match="column of ids"):
                    self.reopen(path, store, content)
            assert self.reopen(path, store, "text\none\n2\nthree\nfour\nfive\n").sentences() == []

    def test_an_image_that_was_replaced(self, tmp_path):
        picture(tmp_path / "photos" / "a.png")
        with Store.open(tmp_path / "labels.db") as store:
            notice_changes(open_items(tmp_path / "photos"), store, "photos")
            picture(tmp_path / "photos" / "a.png", colour=(1, 2, 3), size=(9, 9))
            assert notice_changes(open_items(tmp_path / "photos"), store, "photos").edited == ["a.png"]


class TestCells:
    formulas = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")  # the last four are wide

    @pytest.mark.parametrize("text", [*(f"{first}1+1" for first in formulas), "'=1", "''@", "'", "'x", "a=1", ""])
    def test_come_back_as_they_were(self, text):
        assert plain_cell(safe_cell(text)) == text
        assert not safe_cell(text).startswith(self.formulas)

    @given(st.text(alphabet=["'", " ", "a", "x", *formulas], max_size=8))
    def test_every_text_comes_back(self, text):
        assert plain_cell(safe_cell(text)) == text
        assert not safe_cell(text).startswith(self.formulas)


class TestLabelFiles:
    @pytest.mark.parametrize(
        "content",
        [
            b"id,label\na,cat\nb,\nc,dog\n",
            b"\xef\xbb\xbfid;text;label\r\na;x, y;cat\r\nb;z;\r\nc;u;dog\r\n",
            "id\tlabel\na\tcat\nb\t\nc\tdog\n".encode("utf-16"),
            b"label,ID\n cat ,a\n,b\ndog,c\n",
        ],
    )
    def test_of_all_kinds_are_read(self, tmp_path, content):
        (tmp_path / "x.csv").write_bytes(content)
        assert read_labels(tmp_path / "x.csv") == {"a": "cat", "b": None, "c": "dog"}

    def test_numbers_as_ids_and_labels(self, tmp_path):
        write_table(tmp_path / "x.parquet", ["id", "label"], [[1, 3.0], [2, None]])
        assert read_labels(tmp_path / "x.parquet") == {"1": "3", "2": None}
        write_table(tmp_path / "x.jsonl", ["id", "label"], [[1, 3], [2, None]])
        assert read_labels(tmp_path / "x.jsonl") == {"1": "3", "2": None}

    def test_columns_can_be_named(self, tmp_path):
        (tmp_path / "x.csv").write_text("number,topic\n1,cat\n")
        assert read_labels(tmp_path / "x.csv", "number", "topic") == {"1": "cat"}
        with pytest.raises(FileError, match=r"no column 'label'.*number, topic.*label="):
            read_labels(tmp_path / "x.csv", "number")

    @pytest.mark.parametrize(
        ("content", "error", "message"),
        [
            ("id,label\na,cat\na,dog\n", LabelError, "twice"),
            ("id,label\n,dog\n", FileError, "id is missing"),
            ("id,label\na,dog,x\n", FileError, "expected 2 fields"),
        ],
    )
    def test_mistakes_are_named(self, tmp_path, content, error, message):
        (tmp_path / "x.csv").write_text(content)
        with pytest.raises(error, match=message):
            read_labels(tmp_path / "x.csv")

    def test_other_files_are_refused(self, tmp_path):
        (tmp_path / "x.xlsx").write_bytes(b"PK")
        with pytest.raises(FileError, match="cannot read"):
            read_labels(tmp_path / "x.xlsx")
        with pytest.raises(FileError, match="no such file"):
            read_labels(tmp_path / "y.csv")


class TestAdding:
    items = Items("text", ["a", "b", "c"], ["1", "2", "3"])

    def state(self):
        return Fold().add([Event("class", label="cat", id=1), Event("label", "a", "cat", "anna", id=2)])

    def plan(self, labels, **options):
        return plan(labels, self.items, self.state(), "x.csv", **{"replace": False, "new_classes": False} | options)

    def test_says_what_it_does(self):
        added, events = self.plan({"a": "cat", "b": " cat ", "c": ""})
        assert (added.new, added.same, added.empty, added.changed) == (1, 1, 1, 0)
        assert [(event.kind, event.item, event.label) for event in events] == [("label", "b", "cat")]
        assert str(added) == "1 new label; 1 was there already; 1 row without a label left out"

    @pytest.mark.parametrize(
        ("labels", "message"),
        [
            ({"A": "cat"}, "'A'.*Nothing was stored"),
            ({"b": "Cat"}, "Did you mean 'cat'.*new_classes=True"),
            ({"b": "dog"}, "1 class is not in the project: 'dog'"),
        ],
    )
    def test_refuses_what_is_unknown(self, labels, message):
        with pytest.raises(LabelError, match=message):
            self.plan(labels)

    def test_marks_stand_in_the_place_of_labels(self):
        added, events = self.plan({"b": "(cannot be labelled)", "c": " (Don\u2019t  know) "}, person="anna")
        assert [(event.kind, event.item, event.label) for event in events] == [
            ("unlabelable", "b", None),
            ("unsure", "c", None),
        ]
        assert str(added) == "0 new labels; 1 not known; 1 cannot be labelled"
        fold = self.state().add([Event("unsure", "b", None, "anna", id=3), Event("class", label="(skip)", id=4)])
        options = {"replace": False, "new_classes": False}
        added, events = plan({"b": "(don't know)"}, self.items, fold, "x.csv", **options, person="anna")
        assert (added.same, events) == (1, [])
        _, events = plan({"b": "(skip)"}, self.items, fold, "x.csv", **options)  # a class is called that here
        assert [(event.kind, event.label) for event in events] == [("label", "(skip)")]

    def test_a_mark_replaces_an_own_label_only(self):
        with pytest.raises(LabelError, match=r"'a' is 'cat', and here it is marked \(skip\).*replace=True"):
            self.plan({"a": "(skip)"}, person="anna")
        _, events = self.plan({"a": "(skip)"}, person="anna", replace=True)
        assert [event.kind for event in events] == ["skip"]
        with pytest.raises(LabelError, match="only they can take them back"):
            self.plan({"a": "(skip)"}, person="bert", replace=True)

    def test_conflicts(self):
        with pytest.raises(LabelError, match=r"'a' is 'cat', and 'dog' here.*replace=True"):
            self.plan({"a": "dog"}, new_classes=True)
        added, events = self.plan({"a": "dog"}, new_classes=True, replace=True)
        assert (added.changed, list(added.classes)) == (1, ["dog"])
        assert [event.kind for event in events] == ["class", "correct"]


class TestExports:
    def labels(self, *events):
        return Fold().add(Event(e.kind, e.item, e.label, e.person, at=0.0, id=n) for n, e in enumerate(events)).items

    def test_tables_come_back_unchanged(self, tmp_path):
        names = ["=cmd|' /C calc'!A0", "+1", "-1", "@x", "'=1", "plain"]
        items = Items("text", names, [f"={name}" for name in names])
        labels = self.labels(*(Event("label", name, name, "anna") for name in names))
        for ending in (".csv", ".jsonl", ".parquet"):
            assert export(tmp_path / f"x{ending}", items, labels) == 6
            assert read_labels(tmp_path / f"x{ending}") == {name: name for name in names}
        with (tmp_path / "x.csv").open(newline="") as file:
            rows = list(csv.reader(file))
        assert rows[0] == ["id", "text", "label", "person", "time", "origin"]
        assert not [cell for row in rows for cell in row if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]

    def test_folders(self, tmp_path):
        for name in ("a.png", "in/a.png", "b.png"):
            picture(tmp_path / "photos" / name)
        items = open_items(tmp_path / "photos")
        labels = self.labels(
            Event("label", "a.png", "../../up"), Event("label", "in/a.png", "../../up"), Event("label", "b.png", "con")
        )
        assert export(tmp_path / "out", items, labels) == 3
        found = sorted(path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*.png"))
        assert found == ["_.._up/a.png", "_.._up/in_a.png", "_con/b.png"]
        assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "photos"]
        with pytest.raises(FileError, match="already exists"):
            export(tmp_path / "out", items, labels)

    def test_texts_in_folders_and_for_label_studio(self, tmp_path):
        items = Items("text", ["a/b", "a_b", "gone"], ["one", "two", "three"])
        labels = self.labels(
            Event("label", "a/b", "cat", "anna"), Event("label", "a_b", "Cat"), Event("label", "a/b", "dog", "bert")
        )
        export(tmp_path / "folders", items, labels)
        texts = {path.read_text() for path in (tmp_path / "folders").rglob("*.txt")}
        assert texts == {"one", "two"}
        export(tmp_path / "label-studio.json", items, labels)
        tasks = json.loads((tmp_path / "label-studio.json").read_text())
        assert tasks[0]["data"] == {"item": "a/b", "text": "one"}
        choices = [note["result"][0]["value"]["choices"] for note in tasks[0]["annotations"]]
        assert choices == [["cat"], ["dog"]]

    def test_unknown_endings(self, tmp_path):
        with pytest.raises(FileError, match=r"label-studio\.json"):
            export(tmp_path / "x.xlsx", Items("text", ["a"], ["b"]), {})


class TestImages:
    def test_are_encoded_again(self, tmp_path):
        picture(tmp_path / "a.jpg", size=(3_000, 1_000))
        (tmp_path / "a.jpg").write_bytes((tmp_path / "a.jpg").read_bytes() + b"<script>alert(1)</script>")
        content, media = images.served(tmp_path / "a.jpg", longest=600)
        assert media == "image/jpeg"
        assert b"script" not in content
        (tmp_path / "b.jpg").write_bytes(content)
        with Image.open(tmp_path / "b.jpg") as image:
            assert image.size == (600, 200)

    def test_small_ones_keep_their_pixels(self, tmp_path):
        picture(tmp_path / "a.png", colour=(1, 2, 3))
        content, media = images.served(tmp_path / "a.png")
        (tmp_path / "b.png").write_bytes(content)
        assert media == "image/png"
        with Image.open(tmp_path / "b.png") as image:
            assert image.getpixel((0, 0)) == (1, 2, 3)

    @pytest.mark.parametrize(
        ("values", "ending"),
        [
            (np.array([[1_000, 31_000], [61_000, 61_000]], np.uint16), "png"),
            (np.array([[-1.0, 0.0], [1.0, 1.0]], np.float32), "tif"),
            (np.array([[-70_000, 0], [70_000, 70_000]], np.int32), "tif"),
        ],
    )
    def test_of_more_than_eight_bits_are_not_clipped(self, tmp_path, values, ending):
        Image.fromarray(values).save(tmp_path / f"deep.{ending}")
        (tmp_path / "shown.png").write_bytes(images.served(tmp_path / f"deep.{ending}")[0])
        with Image.open(tmp_path / "shown.png") as image:
            assert np.asarray(image.convert("L")).tolist() in ([[0, 128], [255, 255]], [[0, 127], [255, 255]])

    def test_bombs_and_strange_files_are_refused(self, tmp_path, monkeypatch):
        Image.new("1", (9_000, 9_000)).save(tmp_path / "bomb.png")
        with pytest.raises(FileError, match="pixels"):
            images.served(tmp_path / "bomb.png")
        (tmp_path / "a.png").write_text("<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>")
        with pytest.raises(FileError, match="not an image"):
            images.served(tmp_path / "a.png")
        Image.new("RGB", (4, 4)).save(tmp_path / "program.eps")
        (tmp_path / "program.eps").rename(tmp_path / "program.png")  # Pillow would start Ghostscript on it
        with pytest.raises(FileError, match="not an image"):
            images.served(tmp_path / "program.png")
        monkeypatch.setattr(images, "LARGEST_FILE", 10)
        picture(tmp_path / "large.png")
        with pytest.raises(FileError, match="at most"):
            images.served(tmp_path / "large.png")


def test_classes_are_a_list_of_any_length_or_a_file(tmp_path):
    names = [f"topic_number_{n}" for n in range(500)]  # longer than the name of a file may be
    assert read_classes(",".join(names)) == names
    (tmp_path / "classes.txt").write_text("cat\n\n dog \n")
    assert read_classes(str(tmp_path / "classes.txt")) == ["cat", "dog"]
    with pytest.raises(ParameterError, match="one per line"):
        read_classes(" , ")
