"""Who may come in, and what is never trusted. Each test belongs to a row of docs/security.md."""

import os

import pytest
from labelling_server import Page, application, client_of, open_desk, open_images, write_texts
from PIL import Image

from poolwise.errors import ParameterError
from poolwise.labelling.server import access as accesses
from poolwise.labelling.server import running
from poolwise.labelling.server.access import Rules, Session, signing_key

TEAM = Rules.of("0.0.0.0", "olga")


@pytest.fixture
def desk(tmp_path):
    found = open_desk(write_texts(tmp_path, ['<script>alert("x")</script>', "plain", "another"]), batch=3)
    yield found
    found.project.close()


@pytest.fixture
def local(desk):
    app, _ = application(desk)
    with client_of(app) as client:
        yield Page(client)


def entered(app, desk, name):
    client = client_of(app, "http://192.168.1.5:8700")
    answer = client.get(f"/enter/{desk.store.add_person(name)}")
    assert answer.status_code == 303
    assert answer.headers["location"] == "/"
    return Page(client)


# Names and origins


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "192.168.1.5", "", "a b", "localhost@evil"])
def test_a_rebound_name_is_refused_on_loopback(local, host):
    assert local.client.get("/", headers={"host": host}).status_code == 421
    assert local.client.post("/api/work", json={"want": 1}, headers={"host": host}).status_code == 421


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:1234", "[::1]:8700"])
def test_the_names_of_this_machine_are_taken(local, host):
    assert local.client.get("/", headers={"host": host}).status_code == 200


def test_on_other_addresses_numbers_and_own_names_are_taken():
    assert TEAM.links
    assert TEAM.knows("192.168.1.5:8700")
    assert not TEAM.knows("evil.example")
    assert Rules.of("127.0.0.1", "olga", ["labels.example"]).knows("labels.example")
    assert Rules.of("127.0.0.1", "olga", ["labels.example"]).links
    assert not Rules.of("localhost", "olga").links


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://localhost:1"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"x-poolwise-token": "guess"},
        {"x-poolwise-token": ""},
        {"content-type": "text/plain"},
    ],
)
def test_a_change_from_another_site_is_refused(desk, local, headers):
    answer = local.post("/api/classes", {"name": "cow"}, **headers)
    assert answer.status_code == 403
    assert "cow" not in desk.store.classes()


def test_the_token_of_another_browser_is_refused(desk):
    app, _ = application(desk)
    with client_of(app) as first, client_of(app) as second:
        one, two = Page(first), Page(second)
        two.token = one.token
        assert two.post("/api/work", {"want": 1}).status_code == 403


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH"])
def test_other_methods_are_refused(local, method):
    assert local.client.request(method, "/api/work").status_code == 403


# Sessions and links


def test_without_a_link_nobody_comes_in(desk):
    app, _ = application(desk, TEAM)
    with client_of(app, "http://192.168.1.5:8700") as client:
        for path in ("/", "/progress", "/review", "/team", "/labels.csv", "/api/status", "/image/0", "/api/text/0"):
            answer = client.get(path)
            assert answer.status_code == 401, path
            assert "plain" not in answer.text
        assert client.post("/api/work", json={"want": 1}).status_code == 401
        assert client.get("/static/page.css").status_code == 200


def test_a_link_gives_a_cookie_that_scripts_and_other_sites_do_not_get(desk):
    app, _ = application(desk, TEAM)
    with client_of(app, "http://192.168.1.5:8700") as client:
        token = desk.store.add_person("anna")
        answer = client.get(f"/enter/{token}")
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=lax" in cookie
        assert token not in cookie + answer.headers["location"]
        assert "anna" in client.get("/").text
    with client_of(app, "https://192.168.1.5:8700") as client:
        assert "Secure" in client.get(f"/enter/{token}").headers["set-cookie"]


def test_only_a_hash_of_a_token_is_stored(desk):
    token = desk.store.add_person("anna")
    stored = b"".join(path.read_bytes() for path in desk.project.folder.glob("labels.*"))
    assert token.encode() not in stored


def test_a_revoked_person_is_out_at_once_and_a_new_link_ends_the_old(desk):
    app, _ = application(desk, TEAM)
    owner, anna = entered(app, desk, "olga"), entered(app, desk, "anna")
    assert anna.work(1)
    assert owner.post("/api/people/revoke", {"name": "anna"}).status_code == 200
    assert anna.client.get("/api/status").status_code == 401
    assert desk.store.leased().get("anna") is None
    bert = entered(app, desk, "bert")
    made = owner.post("/api/people", {"name": "bert"}).json()
    assert bert.client.get("/api/status").status_code == 401
    assert bert.client.get(made["path"]).status_code == 303


def test_only_the_owner_gives_and_ends_access(desk):
    app, _ = application(desk, TEAM)
    anna = entered(app, desk, "anna")
    assert anna.post("/api/people", {"name": "eve"}).status_code == 403
    assert anna.post("/api/people/revoke", {"name": "olga"}).status_code == 403
    owner = entered(app, desk, "olga")
    assert owner.post("/api/people/revoke", {"name": "olga"}).status_code == 422
    assert [person.name for person in desk.store.people()] == ["anna", "olga"]


def test_cookies_that_were_changed_or_made_elsewhere_are_refused(desk):
    _, access = application(desk, TEAM)
    desk.store.add_person("anna")
    since = {person.name: person.added for person in desk.store.people()}["anna"]
    good = access.signed(Session("anna", "b", since=since))
    other = accesses.Access(TEAM, b"x" * 32, desk.store).signed(Session("anna", "b", since=since))
    assert access.session(good).person == "anna"
    for cookie in (good[:-2], other, "", "x" * 5_000, access.signed(Session("anna", "b", since=since - 1)), None):
        assert access.session(cookie) is None
    visitor = access.signed(Session("anna", "b"))  # as this machine's own browsers have it
    assert access.session(visitor) is None


def test_a_session_ends_after_a_month(desk, monkeypatch):
    _, access = application(desk)
    cookie = access.signed(Session("olga", "b"))
    assert access.session(cookie) is not None
    monkeypatch.setattr(accesses, "_SESSION", -1)
    assert access.session(cookie) is None


def test_the_key_is_not_in_the_project(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    key = signing_key("uid", tmp_path / "a")
    assert key == signing_key("uid", tmp_path / "a")
    assert key != signing_key("uid", tmp_path / "b")
    [place] = (tmp_path / "state").rglob("server-key")
    assert place.stat().st_mode & 0o077 == 0
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null")
    assert signing_key("uid", tmp_path) != signing_key("uid", tmp_path)  # nowhere to keep it


def test_log_ins_are_limited(desk):
    app, _ = application(desk, TEAM)
    with client_of(app, "http://192.168.1.5:8700") as client:
        codes = [client.get(f"/enter/guess-{n}").status_code for n in range(12)]
        assert codes == [401] * 10 + [429] * 2
        answer = client.get(f"/enter/{desk.store.add_person('anna')}")
        assert answer.status_code == 429
        assert int(answer.headers["retry-after"]) <= 61


def test_the_limit_counts_all_addresses_together_and_forgets():
    limit = accesses.RateLimit(one=2, all=3)
    for address in ("a", "b", "c"):
        limit.failed(address, now=100.0)
    assert limit.wait("d", now=110.0) == 50.0
    assert limit.wait("d", now=161.0) == 0.0


# What is sent


def test_every_answer_has_the_headers(desk, local):
    for path in ("/", "/progress", "/review", "/team", "/api/status", "/static/label.js", "/nothing", "/labels.csv"):
        headers = local.client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["x-frame-options"] == "DENY"
    assert local.client.get("/", headers={"host": "evil"}).headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("path", ["/", "/progress", "/review", "/team"])
def test_pages_have_no_inline_script_or_style_and_nothing_from_elsewhere(local, path):
    text = local.client.get(path).text
    assert text.count("<script") == text.count('<script src="/static/')
    assert "<style" not in text
    assert " style=" not in text
    assert "http://" not in text.replace("http://www.w3.org", "")
    assert "https://" not in text


def test_texts_classes_and_names_are_escaped(desk):
    app, _ = application(desk, TEAM)
    bad = "<img src=x onerror=alert(1)>"
    desk.project.add_classes([bad])
    owner, eve = entered(app, desk, "olga"), entered(app, desk, bad)
    eve.say("0", bad)
    owner.say("0", "cat")
    for path in ("/", "/progress", "/review", "/team"):
        text = owner.client.get(path).text
        assert bad not in text, path
        assert "<script>alert" not in text
    assert "&lt;script&gt;alert" in owner.client.get("/review").text


@pytest.mark.parametrize("body", [b"x" * 300_000, b'{"answers": [' + b" " * 300_000 + b"]}"])
def test_large_bodies_are_refused(local, body):
    headers = {"x-poolwise-token": local.token, "content-type": "application/json"}
    assert local.client.post("/api/answers", content=body, headers=headers).status_code == 413

    def parts():
        for start in range(0, len(body), 10_000):
            yield body[start : start + 10_000]

    assert local.client.post("/api/answers", content=parts(), headers=headers).status_code == 413


@pytest.mark.parametrize(
    "body",
    [
        [],
        {"answers": "x"},
        {"answers": [{"request": "r", "item": "0", "kind": "label", "label": "cat"}]},
        {"answers": [{"request": "request-1", "item": ["0"], "kind": "label"}]},
        {"answers": [{"request": "request-1", "item": "0", "kind": "label", "label": "cat", "person": "eve"}]},
        {"answers": [{"request": "request-1", "item": "0", "kind": "label", "label": "cat"}] * 201},
    ],
)
def test_bodies_of_another_form_are_refused_with_one_sentence(local, body):
    answer = local.post("/api/answers", body)
    assert answer.status_code == 422
    assert set(answer.json()) == {"error"}


def test_a_null_character_in_a_label_is_refused(desk, local):
    assert local.post("/api/classes", {"name": "a\0b"}).status_code == 422
    assert local.say("0", "a\0b").json()["stored"] == []


def test_damaged_json_is_refused(local):
    headers = {"x-poolwise-token": local.token, "content-type": "application/json"}
    for body in (b"{", b"\xff\xfe", b"[" * 100_000):
        assert local.client.post("/api/answers", content=body, headers=headers).status_code in (400, 413, 422)


# Files


def test_paths_lead_nowhere(local):
    for path in (
        "/static/../access.py",
        "/static/%2e%2e/access.py",
        "/static/..%2faccess.py",
        "/static//etc/passwd",
        "/image/../labels.db",
        "/image/%2e%2e%2flabels.db",
        "/labels.db",
    ):
        answer = local.client.get(path)
        assert answer.status_code == 404, path
        assert "import" not in answer.text


def photos(folder):
    folder.mkdir()
    for name in ("a.png", "b.png", "c.png", "d.png"):
        Image.new("RGB", (20, 10), "red").save(folder / name)
    return folder


def test_images_that_are_not_images_are_not_sent(tmp_path):
    folder = photos(tmp_path / "photos")
    (folder / "b.png").write_text('<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>')
    (folder / "c.png").write_bytes(bomb())
    desk = open_images(folder)
    os.remove(folder / "d.png")
    os.symlink("/etc/passwd", folder / "d.png")
    app, _ = application(desk)
    with client_of(app) as client:
        Page(client)
        assert client.get("/image/0").status_code == 200
        for place in (1, 2, 3):
            answer = client.get(f"/image/{place}")
            assert answer.status_code == 404
            assert b"<svg" not in answer.content
            assert b"root:" not in answer.content
    desk.project.close()


def test_what_else_is_in_an_image_file_is_not_sent(tmp_path):
    folder = photos(tmp_path / "photos")
    path = folder / "a.png"
    path.write_bytes(path.read_bytes() + b"<script>alert(1)</script>")
    desk = open_images(folder)
    app, _ = application(desk)
    with client_of(app) as client:
        Page(client)
        answer = client.get("/image/0")
        assert b"script" not in answer.content
        assert "sandbox" in answer.headers["content-security-policy"]
    desk.project.close()


def bomb():
    """A PNG of a few bytes that claims to have 500 million pixels."""
    import struct
    import zlib

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 25_000, 20_000, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")
    )


# Starting


def test_a_port_that_is_taken_is_said(tmp_path):
    with running._listening("127.0.0.1", None, None) as first:
        port = first.getsockname()[1]
        with pytest.raises(ParameterError, match=f"port {port}"):
            running._listening("127.0.0.1", port, None)
        with running._listening("127.0.0.1", None, port) as second:
            assert second.getsockname()[1] != port
    with pytest.raises(ParameterError, match="host must be an address"):
        running._listening("no.such.host.invalid", None, None)


def test_by_default_only_this_machine_is_served():
    assert running.Options().host == "127.0.0.1"
    assert accesses.is_loopback("127.0.0.1")
    assert accesses.is_loopback("::1")
    assert not accesses.is_loopback("0.0.0.0")
