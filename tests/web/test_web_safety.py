"""What the page must refuse, and what it must never give away."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from starlette.datastructures import Headers

from workingpapers.foundations.errors import InputError
from workingpapers.web import forms, uploads
from workingpapers.web.safety import host_name, local_path, same_origin
from workingpapers.web.settings import Settings, is_loopback

TOKEN = "correct-horse-battery-staple"
PAGES = (
    "/",
    "/?q=private",
    "/?q=zzzzzz",
    "/papers/condorcet_nash",
    "/papers/condorcet_nash/run",
    "/papers/arms_control/run",
    "/jobs",
    "/results",
    "/import",
    "/nowhere",
)


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:8765", "localhost.evil.example", "", "[::1"])
@pytest.mark.parametrize("path", ["/", "/api/papers", "/static/app.js"])
def test_a_name_that_points_here_from_elsewhere_is_refused(client, host, path):
    assert client.get(path, headers={"host": host}).status_code == 421


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:8765", "[::1]:8765", "LOCALHOST:1"])
def test_this_machines_own_names_are_served(client, host):
    assert client.get("/api/papers", headers={"host": host}).status_code == 200


def test_a_bare_address_is_only_served_where_others_may_reach_the_page():
    assert not Settings().knows_host("192.168.1.7")
    assert Settings(host="0.0.0.0", token=TOKEN).knows_host("192.168.1.7")
    assert not Settings(host="0.0.0.0", token=TOKEN).knows_host("evil.example")
    assert Settings(host="0.0.0.0", token=TOKEN, allowed_hosts=("lab.example",)).knows_host("lab.example")


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("localhost", True), ("::1", True), ("127.8.9.1", True), ("0.0.0.0", False), ("::", False)],
)
def test_loopback_addresses_are_told_from_others(host, loopback):
    assert is_loopback(host) is loopback


@pytest.mark.parametrize(
    ("header", "host"),
    [("a.b:80", "a.b"), ("[::1]:80", "[::1]"), ("a b", ""), ("a:b:c", ""), ("user@a", "user@a"), ("a:999999", "")],
)
def test_the_host_is_read_without_its_port(header, host):
    assert host_name(header) == host


CHANGING = (
    "/papers/condorcet_nash/check",
    "/papers/condorcet_nash/run",
    "/import",
    "/import/0123456789abcdef/confirm",
    "/jobs/0123456789abcdef/cancel",
    "/jobs/0123456789abcdef/again",
    "/results/1/resume",
    "/api/checks",
    "/api/imports",
    "/api/imports/0123456789abcdef/confirm",
    "/api/papers/condorcet_nash/runs",
    "/api/jobs/0123456789abcdef/cancel",
    "/api/jobs/0123456789abcdef/again",
    "/api/results/1/resume",
)


def test_every_changing_route_is_in_the_list_of_this_test(client):
    def routes(router):
        for route in router.routes:
            if hasattr(route, "routes"):
                yield from routes(route)
            elif hasattr(route, "original_router"):
                yield from routes(route.original_router)
            else:
                yield route

    found = set()
    for route in routes(client.app):
        if set(getattr(route, "methods", None) or ()) - {"GET", "HEAD", "OPTIONS"}:
            path = route.path
            for name, value in (("slug", "condorcet_nash"), ("number", "0123456789abcdef"), ("run", "1")):
                path = path.replace("{" + name + "}", value)
            found.add(path.replace("{job}", "0123456789abcdef"))
    assert found == set(CHANGING)


@pytest.mark.parametrize("path", CHANGING)
@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "http://127.0.0.1:8765.evil.example"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site", "origin": "http://127.0.0.1:8765"},
    ],
)
def test_another_site_changes_nothing(client, path, headers):
    assert client.post(path, headers=headers).status_code == 403
    assert client.get("/api/jobs").json() == []


def test_the_pages_own_requests_and_those_of_programs_pass():
    own = {"host": "127.0.0.1:8765", "origin": "http://127.0.0.1:8765", "sec-fetch-site": "same-origin"}
    assert same_origin(Headers(own))
    assert same_origin(Headers({"host": "127.0.0.1:8765"}))


def test_nothing_that_changes_answers_to_get(client):
    for path in CHANGING:
        answer = client.get(path, follow_redirects=False)
        assert answer.status_code in (404, 405) or path in ("/import", "/papers/condorcet_nash/run")


class Scripts(HTMLParser):
    """Collects what a content security policy without inline script would block, and addresses elsewhere."""

    def __init__(self):
        super().__init__()
        self.inline, self.outside, self.open = [], [], False

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.open = tag == "script" and "src" not in given
        self.inline += [name for name in given if name.startswith(("on", "hx-on")) and name != "on"]
        self.inline += [value for value in given.values() if value and value.lower().startswith("javascript:")]
        for name in ("src", "hx-get", "action"):
            if re.match(r"(?:[a-z]+:)?//", given.get(name) or ""):
                self.outside.append(given[name])
        if tag == "link" and re.match(r"(?:[a-z]+:)?//", given.get("href") or ""):
            self.outside.append(given["href"])

    def handle_data(self, data):
        if self.open and data.strip():
            self.inline.append(data)


@pytest.mark.parametrize("path", PAGES)
def test_pages_hold_no_inline_script_and_load_nothing_from_elsewhere(client, path):
    answer = client.get(path)
    policy = answer.headers["content-security-policy"]
    assert "script-src 'self';" in policy
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    found = Scripts()
    found.feed(answer.text)
    assert found.inline == []
    assert found.outside == []


def test_static_files_name_no_address_to_fetch_from():
    folder = Path(uploads.__file__).parent / "static"
    for file in (folder / "app.js", folder / "style.css", folder / "vendor" / "katex" / "katex.min.css"):
        text = file.read_text(encoding="utf-8")
        assert not re.search(r"(?:url\(|import |fetch\(|EventSource\()\s*[\"'`]?(?:https?:)?//", text), file


@pytest.fixture
def guarded(serve):
    return serve(host="0.0.0.0", token=TOKEN)


@pytest.mark.parametrize("path", [*PAGES, "/api/papers", "/api/openapi.json", "/preferences?theme=dark"])
def test_without_the_token_nothing_is_told(guarded, path):
    answer = guarded.get(path, follow_redirects=False)
    assert answer.status_code == 401
    assert "condorcet" not in answer.text


def test_the_token_opens_the_page_once_and_leaves_the_address(guarded):
    answer = guarded.get(f"/?q=a&token={TOKEN}", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/?q=a")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert guarded.get("/").status_code == 200  # the client keeps the cookie
    guarded.cookies.clear()
    assert guarded.get("/", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200


@pytest.mark.parametrize("wrong", ["", "x", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "ü"])
def test_a_wrong_token_opens_nothing(guarded, wrong):
    assert guarded.get("/", params={"token": wrong}, follow_redirects=False).status_code == 401
    header = {"authorization": b"Bearer " + wrong.encode()}
    assert guarded.get("/", headers=header).status_code == 401
    assert guarded.post("/jobs/0123456789abcdef/cancel", params={"token": TOKEN}).status_code == 401


@pytest.mark.parametrize("back", ["//evil.example", "/\\evil.example", "https://evil.example", "\\\\evil.example"])
def test_going_back_stays_here(client, back):
    answer = client.get("/preferences", params={"theme": "dark", "back": back}, follow_redirects=False)
    assert re.match(r"/(?![/\\])", answer.headers["location"])
    assert local_path(back)[:2] not in ("//", "/\\")
    for referer in ("http://127.0.0.1:8765//evil.example/", "http://evil.example/x", "x"):
        answer = client.get("/preferences", headers={"referer": referer}, follow_redirects=False)
        assert re.match(r"/(?![/\\])", answer.headers["location"])


LEAVING = (
    "../../etc/passwd",
    "..%2f..%2fetc%2fpasswd",
    "%2e%2e/%2e%2e/job.json",
    "/etc/passwd",
    "....//job.json",
    "..\\..\\job.json",
    "%00",
    "../job.json",
)


@pytest.fixture
def finished(client, ended, wins):
    """A job that wrote a report."""
    with wins.open("rb") as stream:
        answer = client.post(
            "/api/papers/condorcet_nash/runs", data={"report": "report.html"}, files={"preferences": stream}
        )
    job = ended(client, answer.json()["id"])
    assert job["state"] == "done", job
    return job["id"]


def test_no_address_leads_out_of_a_jobs_files(client, finished):
    assert client.get(f"/jobs/{finished}/files/report.html").status_code == 200
    for name in LEAVING:
        for address in (f"/jobs/{finished}/files/{name}", f"/api/jobs/{finished}/files/{name}"):
            answer = client.get(address)
            assert answer.status_code in (404, 400, 422), address
            assert "root:" not in answer.text
        assert client.get(f"/jobs/{finished}/report/{name}").status_code in (404, 400)
    for number in ("..", "%2e%2e", "../" + finished, finished + "/..", "0" * 16):
        assert client.get(f"/jobs/{number}/files/job.json").status_code in (404, 405)


def test_a_link_out_of_a_jobs_files_is_not_followed(client, finished, data_folder, tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("treasure", encoding="utf-8")
    outputs = data_folder / "web" / "jobs" / finished / "outputs"
    (outputs / "link.txt").symlink_to(secret)
    assert client.get(f"/jobs/{finished}/files/link.txt").status_code == 404
    assert "link.txt" not in client.get(f"/jobs/{finished}").text


def test_a_report_is_shown_in_a_box_and_files_are_only_saved(client, finished):
    report = client.get(f"/jobs/{finished}/report/report.html")
    assert report.headers["content-security-policy"].startswith("sandbox; default-src 'none'")
    assert "script" not in report.headers["content-security-policy"]
    saved = client.get(f"/jobs/{finished}/files/report.html")
    assert saved.headers["content-type"] == "application/octet-stream"
    assert saved.headers["content-disposition"].startswith("attachment")


@pytest.mark.parametrize("name", ["../x.csv", "/etc/x.csv", "..", "a/b.csv", ".hidden", "a\\b.csv", "x\0.csv", "~/x"])
def test_what_a_command_writes_stays_in_its_folder(client, wins, name):
    answer = client.post(
        "/api/papers/condorcet_nash/runs", data={"out": name}, files={"preferences": wins.read_bytes()}
    )
    assert answer.status_code == 400
    assert "--out" in answer.json()["detail"]
    assert client.get("/api/jobs").json() == []


@pytest.mark.parametrize(
    "text",
    [
        "/etc/passwd",
        "~/.ssh/id_rsa",
        "~root/x",
        "../../x",
        "a/../../b",
        "obs=/etc/passwd",
        "obs=~/x",
        "a,../b",
        "C:\\Windows",
        "\\\\host\\share",
        "file:///etc/passwd",
        "sqlite:////etc/x",
        "postgresql://host/x",
        "x\0y",
        "a /etc/passwd",
        "'/etc/passwd'",
    ],
)
def test_a_text_that_leads_out_is_refused(text):
    with pytest.raises(InputError, match="leads out"):
        forms.contained("--ledger", text)


@pytest.mark.parametrize(
    "text",
    [
        "books.duckdb",
        "obs=inputs/data.csv",
        "P(Y[x] = y | X = x')",
        "openai/gpt-x",
        "1 / 2",
        "https://host.example/v1",
        "a..b",
        "y ~ x",
        "and/or",
        "2026-01",
    ],
)
def test_an_ordinary_text_passes(text):
    assert forms.contained("--ledger", text) == text


def test_a_ledger_elsewhere_is_refused_by_the_server(client, tmp_path):
    answer = client.post(
        "/api/papers/data_royalties/runs?command=statement",
        data={"ledger": str(tmp_path / "x"), "period": "2026-01", "out": "statements"},
    )
    assert answer.status_code == 400
    assert "leads out" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\x\\y.csv", "y.csv"),
        (".htaccess", "htaccess"),
        ("a b;rm -rf.csv", "a_b_rm_-rf.csv"),
        ("", "file"),
        ("..", "file"),
        ("论文.csv", "论文.csv"),
        ("x" * 300 + ".csv", "x" * 96 + ".csv"),
        ("a\nb.csv", "a_b.csv"),
    ],
)
def test_names_of_uploads_are_made_safe(name, safe):
    assert uploads.safe_name(name) == safe


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("model.pkl", b"\x80\x04"),
        ("step.py", b"import os"),
        ("run.sh", b"#!/bin/sh"),
        ("x.exe", b"MZ"),
        ("x.csv", b"a,b\n\0\0"),
        ("x.parquet", b"a,b\n1,2\n"),
        ("x.npz", b"hello"),
        ("x.gz", b"hello"),
        ("x.csv", b""),
        ("x", b"\x7fELF\0\0"),
    ],
)
def test_files_of_other_kinds_are_refused(client, name, content):
    answer = client.post("/api/papers/condorcet_nash/runs", files={"preferences": (name, content)})
    assert answer.status_code == 400
    assert answer.json()["detail"].count("\n") == 0
    assert client.get("/api/jobs").json() == []


def test_a_refused_upload_leaves_nothing_behind(client, data_folder):
    client.post("/api/papers/condorcet_nash/runs", files={"preferences": ("x.exe", b"MZ")})
    client.post("/api/imports", files={"files": ("x.exe", b"MZ")})
    assert list((data_folder / "web" / "jobs").iterdir()) == []


def test_uploads_over_the_limit_are_refused_with_and_without_a_declared_length(serve):
    client = serve(upload_limit=20_000)
    large = b"winner,loser\n" + b"a,b\n" * 10_000
    for path in ("/api/papers/condorcet_nash/runs", "/api/imports", "/import", "/papers/condorcet_nash/run"):
        answer = client.post(path, files={"preferences": ("x.csv", large), "files": ("x.csv", large)})
        assert answer.status_code == 413
        assert "larger than 20000 bytes" in answer.text
        # A length that is declared is refused before anything has come.
        assert client.post(path, content=b"x", headers={"content-length": "20001"}).status_code == 413

        def chunks():
            yield b'--x\r\nContent-Disposition: form-data; name="preferences"; filename="x.csv"\r\n\r\n'
            for _ in range(10):
                yield large[:4000]
            yield b"\r\n--x--\r\n"

        answer = client.post(path, content=chunks(), headers={"content-type": "multipart/form-data; boundary=x"})
        assert answer.status_code == 413, path


def test_words_of_a_record_are_shown_and_not_run(client, ended, tmp_path):
    evil = "<script>alert(1)</script> & <img src=x onerror=alert(2)> of everything"
    file = tmp_path / "evil.csv"
    file.write_text(
        "title,authors,abstract,topic,url\n"
        f'"{evil}","<b>Eve</b>","{evil} $<script>x</script>$","<i>A</i> · B",javascript:alert(3)\n',
        encoding="utf-8",
    )
    job = client.post("/api/imports", files={"files": file.open("rb")}).json()["id"]
    ended(client, job)
    preview = client.get(f"/jobs/{job}").text
    ended(client, client.post(f"/api/imports/{job}/confirm").json()["id"])
    found = client.get("/api/search", params={"q": "everything", "scope": "all"}).json()["hits"]
    number = next(hit["number"] for hit in found if "alert" in hit["title"])
    pages = [preview, client.get("/?q=everything&scope=all").text, client.get(f"/records/{number}").text]
    for page in pages:
        assert "alert(1)" in page
        found = Scripts()
        found.feed(page)
        assert found.inline == []
        assert "<img" not in page
        assert "<b>" not in page


def test_a_fault_is_told_without_its_inside(serve, monkeypatch):
    client = serve()
    monkeypatch.setattr(
        type(client.app.state.web.catalog), "search", lambda *_: (_ for _ in ()).throw(RuntimeError("the inside"))
    )
    from starlette.testclient import TestClient

    quiet = TestClient(client.app, base_url="http://127.0.0.1:8765", raise_server_exceptions=False)
    answer = quiet.get("/?q=x")
    assert answer.status_code == 500
    assert "the inside" not in answer.text
    assert "content-security-policy" in answer.headers
