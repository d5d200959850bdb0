"""What a stranger, a hostile run or another site may do: nothing."""

import re
import shutil
from html import unescape
from pathlib import Path

import pytest
from fastapi import Request
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient

import clinometer as cm
from clinometer.errors import Code, InvalidInputError
from clinometer.web import security
from clinometer.web.app import create_app
from clinometer.web.explorer import write_site
from clinometer.web.security import (
    BODIES,
    BODY,
    HEADERS,
    POLICY,
    Gate,
    ServerSettings,
    guarded,
    hosts_asked_for,
    is_local,
    password_given,
)
from tests import quick
from tests.raising import raises
from tests.toys import Eye, Painter, toy_suite
from tests.web.rating import Rater, make
from tests.web.serving import HASH, HTML, PASSWORD, client, ids, pictures


@pytest.fixture
def guarded_browser(runs, tmp_path, monkeypatch):
    """A server with a password, of which a minute lasts as long as a slow test."""
    monkeypatch.setattr(security, "LOGINS", security.LOGINS.replace("minute", "day"))
    return client(runs, cache=tmp_path, password_hash=HASH)


def from_address(browser, address):
    """Another browser of the same server, elsewhere."""
    return TestClient(browser.app, follow_redirects=False, client=(address, 50_000))


def token(browser, page="/login"):
    return re.search(r'name="csrf_token" value="([^"]+)"', browser.get(page).text)[1]


def sign_in(browser, password=PASSWORD, **fields):
    return browser.post("/login", data={"password": password, "csrf_token": token(browser), **fields})


# --- the organiser ---------------------------------------------------------------------------------------------------


def test_without_the_password_nothing_is_shown(guarded_browser):
    app = guarded_browser.app
    seen = 0
    for route in _routes(app):
        if route.path in ("/static/{name}", "/login", "/logout"):
            continue
        if route.path.startswith(("/join/", "/rate/")):  # raters have no password; tests/web/test_ratings.py
            continue
        address = re.sub(r"\{\w+\}", "abc", route.path)
        for method in route.methods:
            response = guarded_browser.request(method, address)
            assert response.status_code in (303, 401, 403), (method, address)
            assert "step-900" not in response.text
            seen += 1
    assert seen >= 7


def _routes(app):
    found = []
    pending = list(app.routes)
    while pending:
        route = pending.pop()
        if isinstance(route, APIRoute):
            found.append(route)
        else:
            pending += getattr(getattr(route, "original_router", None) or getattr(route, "router", None), "routes", [])
    return found


def test_the_password_opens_and_signing_out_closes(guarded_browser):
    assert sign_in(guarded_browser, "wrong horse battery").status_code == 403
    assert guarded_browser.get("/runs").status_code == 303
    assert sign_in(guarded_browser).status_code == 303
    assert "step-900" in guarded_browser.get("/runs").text
    guarded_browser.post("/logout", data={"csrf_token": token(guarded_browser, "/runs")})
    assert guarded_browser.get("/runs").status_code == 303


def test_a_page_that_asks_for_the_password_leads_back(guarded_browser):
    asked = guarded_browser.get("/explore?run=abc&of=a/b").headers["location"]
    assert asked == "/login?next=/explore%3Frun%3Dabc%26of%3Da/b"
    assert sign_in(guarded_browser, next="/explore?run=abc").headers["location"] == "/explore?run=abc"


@pytest.mark.parametrize(
    "target", ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)"]
)
def test_nobody_is_led_to_another_site(guarded_browser, target):
    assert sign_in(guarded_browser, next=target).headers["location"] == "/"


def test_a_token_opens_too(guarded_browser):
    good, bad = ({"Authorization": f"Bearer {word}"} for word in (PASSWORD, "wrong"))
    assert guarded_browser.get("/runs", headers=good).status_code == 200
    assert guarded_browser.get("/runs", headers=bad).status_code == 303


def test_guessing_is_slowed_down(guarded_browser):
    said = [sign_in(guarded_browser, f"guess number {number}").status_code for number in range(12)]
    assert said[:10] == [403] * 10
    assert said[10:] == [429] * 2


def test_who_guesses_a_token_is_not_told_when_it_is_right(guarded_browser):
    good = {"Authorization": f"Bearer {PASSWORD}"}
    assert guarded_browser.get("/runs", headers=good).status_code == 200
    for number in range(10):
        guarded_browser.get("/runs", headers={"Authorization": f"Bearer guess {number}"})
    for word in (f"Bearer {PASSWORD}", "Bearer another guess"):
        refused = guarded_browser.get("/runs", headers={"Authorization": word})
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "60")


@pytest.mark.parametrize("address", ["192.0.2.7", "2001:db8::7", "::ffff:192.0.2.7"])
def test_wrong_passwords_slow_their_address_and_nobody_else(guarded_browser, address):
    """An address of IPv6 is one of 2^64 that its host has."""
    guesser, organiser = from_address(guarded_browser, address), from_address(guarded_browser, "192.0.2.8")
    open_session = from_address(guarded_browser, address)
    assert sign_in(open_session).status_code == 303
    said = [sign_in(guesser, f"guess number {number}").status_code for number in range(10)]
    assert said == [403] * 9 + [429]  # one try was the right one
    neighbour = from_address(guarded_browser, address.replace("2001:db8::7", "2001:db8::8"))
    assert sign_in(neighbour).status_code == 429
    assert sign_in(organiser).status_code == 303
    assert open_session.get("/runs").status_code == 200
    open_session.post("/logout", data={"csrf_token": token(open_session, "/runs")})
    assert sign_in(open_session).status_code == 303  # who signed in before has tries of their own
    assert [sign_in(open_session, f"guess number {number}").status_code for number in range(10)][-1] == 429


def test_signing_out_ends_the_session_for_every_copy_of_its_cookie(guarded_browser):
    sign_in(guarded_browser)
    copy, other = (from_address(guarded_browser, "192.0.2.9") for _ in range(2))
    copy.cookies.set("clinometer", guarded_browser.cookies["clinometer"])
    sign_in(other)
    assert copy.get("/runs").status_code == 200
    guarded_browser.post("/logout", data={"csrf_token": token(guarded_browser, "/runs")})
    assert copy.get("/runs").status_code == 303
    assert other.get("/runs").status_code == 200


def test_sessions_end_by_themselves(runs, tmp_path, monkeypatch):
    browser = client(runs, cache=tmp_path, password_hash=HASH)
    monkeypatch.setattr(security, "SESSION_SECONDS", 0)  # of the server; the cookie stays
    assert sign_in(browser).status_code == 303
    assert browser.get("/runs").status_code == 303


def test_the_session_cookie_is_kept_from_scripts_and_sites(guarded_browser):
    cookie = sign_in(guarded_browser).headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie


def test_behind_https_cookies_are_for_https(runs, tmp_path):
    browser = client(runs, cache=tmp_path, password_hash=HASH, behind_https=True)
    assert "secure" in browser.get("/login").headers["set-cookie"].lower()


def test_a_forged_session_is_none(guarded_browser):
    guarded_browser.cookies.set("clinometer", "eyJvcmdhbmlzZXIiOiB0cnVlfQ==.aaaa.bbbb")
    assert guarded_browser.get("/runs").status_code == 303


def test_the_password_is_not_held(guarded_browser):
    settings, gate = guarded_browser.app.state.settings, guarded_browser.app.state.gate
    sign_in(guarded_browser)
    assert PASSWORD not in repr(settings) + repr(vars(settings)) + repr(vars(gate))
    assert settings.password_hash.startswith("$argon2id$")


def test_another_host_demands_a_password(tmp_path, monkeypatch):
    monkeypatch.delenv("CLINOMETER_PASSWORD", raising=False)
    assert password_given(None) == ""
    for host in ("0.0.0.0", "::", "192.168.1.2", "example.org"):
        assert not is_local(host)
        with raises(InvalidInputError, code=Code.MISSING):
            guarded(host, "")
    for host in ("127.0.0.1", "localhost", "::1"):
        assert guarded(host, "") == ""
    file = tmp_path / "password"
    file.write_text(f"{PASSWORD}\n")
    assert Gate(ServerSettings(password_hash=guarded("0.0.0.0", password_given(file)))).opens(PASSWORD)
    monkeypatch.setenv("CLINOMETER_PASSWORD", "another long one")
    assert password_given(None) == "another long one"


@pytest.mark.parametrize(
    ("content", "code"), [("", Code.OUT_OF_RANGE), ("short", Code.OUT_OF_RANGE), (None, Code.UNREADABLE)]
)
def test_a_password_is_no_shorter_than_it_may_be(tmp_path, content, code):
    if content is not None:
        (tmp_path / "password").write_text(content)
    with raises(InvalidInputError, code=code, match="password"):
        password_given(tmp_path / "password")


# --- other sites -----------------------------------------------------------------------------------------------------


@pytest.fixture
def writable(runs, tmp_path):
    """A server with a route that writes, as those of the ratings are."""
    browser = client(runs, cache=tmp_path)
    written = []

    @browser.app.post("/write")
    def write(request: Request) -> str:
        written.append(1)
        return "written"

    return browser, written


def test_every_write_needs_the_token_of_its_session(writable):
    browser, written = writable
    good = token(browser)
    assert browser.post("/write", data={"csrf_token": good}).status_code == 200
    assert browser.post("/write", headers={"X-CSRF-Token": good}, json={}).status_code == 200
    assert len(written) == 2
    assert browser.post("/write").status_code == 403
    assert browser.post("/write", data={"csrf_token": good + "x"}).status_code == 403
    assert browser.post("/write", json={"csrf_token": good}).status_code == 403
    browser.cookies.clear()
    assert browser.post("/write", data={"csrf_token": good}).status_code == 403
    assert browser.post("/write", data={"csrf_token": ""}).status_code == 403
    assert len(written) == 2


def test_the_form_of_the_password_has_a_token_too(guarded_browser):
    assert guarded_browser.post("/login", data={"password": PASSWORD}).status_code == 403


def test_another_name_for_this_address_is_refused(browser):
    assert browser.get("/runs", headers={"Host": "evil.example"}).status_code == 400
    assert hosts_asked_for("127.0.0.1", ()) == ("127.0.0.1", "localhost", "[::1]")
    assert hosts_asked_for("0.0.0.0", ("runs.example",))[-1] == "runs.example"


def test_every_page_has_the_headers(browser):
    first = ids(browser)["step-900"]
    addresses = ["/runs", "/nowhere", "/login", "/static/web.css", f"/explore?run={first}", "/explore?per=7", "/trends"]
    addresses += pictures(browser.get(f"/explore?run={first}").text)[:1]
    for address in addresses:
        headers = browser.get(address).headers
        assert headers["content-security-policy"] == POLICY
        for name in HEADERS:
            assert name in headers
    for word in ("unsafe", "*", "http:"):
        assert word not in POLICY


def test_an_error_of_its_own_says_nothing_of_it(runs, tmp_path):
    browser = client(runs, cache=tmp_path)

    @browser.app.get("/broken")
    def broken() -> None:
        raise RuntimeError("a secret of the server")

    response = TestClient(browser.app, raise_server_exceptions=False).get("/broken")
    assert response.status_code == 500
    assert "secret" not in response.text
    assert response.headers["content-security-policy"] == POLICY


def test_raters_learn_no_path_of_the_server(runs, tmp_path, caplog):
    shutil.copytree(runs / "step-900", tmp_path / "runs/rated")
    browser = client(tmp_path / "runs", cache=tmp_path / "cache")
    _, link = make(browser, cm.open_run(tmp_path / "runs/rated"))
    rater = Rater(browser.app, link)
    shutil.rmtree(tmp_path / "runs")
    for address in (f"{rater.address}/picture/1/0", rater.address, f"/join/{link}"):
        response = rater.browser.get(address)
        assert str(tmp_path) not in response.text
        assert "rated" not in response.text
    assert rater.browser.get(f"{rater.address}/picture/1/0").status_code == 503
    database = browser.app.state.ratings.engine.url.database
    browser.app.state.ratings.engine.dispose()
    for ending in ("-wal", "-shm"):
        Path(f"{database}{ending}").unlink(missing_ok=True)
    Path(database).write_bytes(b"no database" * 1_000)
    for said in (rater.browser.get(rater.address), rater.browser.get(f"/join/{link}")):
        assert said.status_code == 503
        assert str(tmp_path) not in said.text
        assert "sqlite" not in said.text
    assert database in caplog.text  # the server's own terminal says it


# --- limits ----------------------------------------------------------------------------------------------------------


def test_a_body_is_no_larger_than_the_form_of_its_route(guarded_browser):
    """9.9 MB of separators took the server 9.5 s: what is over a limit is not parsed."""
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    seen = 0
    for route in _routes(guarded_browser.app):
        if "POST" not in route.methods:
            continue
        address = re.sub(r"\{\w+\}", "a" * 16, route.path)
        most_bytes, most_fields = BODIES.get(route.path, BODY)
        for content, most in ((b"&" * most_fields, most_fields), (b"x" * (most_bytes + 1), most_bytes)):
            for unsaid in (content, iter([content])):  # with its length declared, and without
                said = guarded_browser.post(address, content=unsaid, headers=form)
                assert said.status_code == 413, address
                assert f"{most:,}" in said.text
        assert guarded_browser.post(address, content=b"&" * 9_900_000, headers=form).status_code == 413
        assert guarded_browser.post(address, headers={"Content-Length": "-1"}).status_code == 413
        seen += 1
    assert seen >= 12


def test_a_form_may_be_as_long_as_its_fields(writable):
    browser, _ = writable
    data = {"csrf_token": token(browser), "filler": "x" * (BODY[0] - 200)} | {f"f{k}": "" for k in range(BODY[1] - 2)}
    assert browser.post("/write", data=data).status_code == 413  # as a whole
    data["filler"] = "x" * (BODY[0] - 1_000)
    assert browser.post("/write", data=data).status_code == 200
    assert browser.post("/write", data=data | {"one": ""}).status_code == 413
    long = {"title": "x" * 200, "question": "x" * 500, "consent": "\U0001f600" * 20_000, "warning": "é" * 2_000}
    task = {"csrf_token": token(browser), "run": ["0" * 12] * 900, "other": "é" * 2_000} | long
    assert browser.post("/ratings/new", data=task).status_code == 400  # read, and without such a run


def test_one_address_is_slowed_down(runs, tmp_path):
    browser = client(runs, cache=tmp_path, requests_a_second=5)
    said = [browser.get("/static/web.css").status_code for _ in range(40)]
    assert 200 in said
    assert 429 in said


# --- paths -----------------------------------------------------------------------------------------------------------

CLIMBING = [
    "..%2f",
    "../run.json",
    "%2e%2e%2frun.json",
    "..%2f..%2fetc%2fpasswd",
    "/etc/passwd",
    "a%00b",
    "~",
    "....//",
]


@pytest.mark.parametrize("name", CLIMBING)
def test_no_path_of_a_request_reaches_the_disk(browser, runs, name):
    first = ids(browser)["step-900"]
    for address in (
        f"/static/{name}",
        f"/runs/{name}/report",
        f"/runs/{first}/pictures/{name}",
        f"/pictures/{name}/abc/small",
        f"/pictures/{first}/{name}/small",
        f"/pictures/{first}/abc/{name}",
        f"/explore?run={name}",
        f"/compare?run={first}&run={name}",
        f"/trends?run={name}",
    ):
        response = browser.get(address)
        assert response.status_code in (303, 400, 404), address
        assert "root:" not in response.text
        assert "fingerprint" not in response.text


def test_a_path_is_no_address_of_a_run(browser, runs):
    for place in (runs / "step-900", "step-900", "file:///etc"):
        assert browser.get("/explore", params={"run": str(place)}).status_code == 404


@pytest.mark.parametrize("field", ["of", "encoder", "side"])
@pytest.mark.parametrize(
    "text", ["' OR 1=1 --", "x'; DROP TABLE samples; --", '" UNION SELECT 1', HTML, "\x00", "é" * 400]
)
def test_what_an_address_asks_is_a_value_and_nothing_else(browser, field, text):
    first = ids(browser)["step-900"]
    response = browser.get("/explore", params={"run": first, field: text})
    assert response.status_code == 200
    assert HTML not in response.text
    assert browser.get("/explore", params={"run": first}).text.count("/small") == 48


# --- hostile runs ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A run whose every name and prompt is HTML, in a folder that is called so."""
    place = tmp_path_factory.mktemp("hostile") / "<b onclick=alert(1)>run & more"
    suite = toy_suite(
        title=HTML,
        name="toy",
        categories={
            HTML: {"targets": [{"name": f"{HTML} {order}", "prompt": f"{HTML} lean 0.{order}"} for order in (2, 8)]}
        },
    )
    quick.audit(Painter(name=HTML, refuse="0.8"), suite, place, encoder=Eye(f"{HTML} eye"), report=True)
    shutil.copytree(place, place.parent / HTML.replace("/", "_"))
    return place.parent


def test_html_of_a_run_is_text(hostile, tmp_path):
    browser = client(hostile, cache=tmp_path)
    known = re.findall(r'name="run" value="(\w+)"', browser.get("/runs").text)
    assert len(known) == 2
    both = "&".join(f"run={each}" for each in known)
    one = browser.get(f"/explore?run={known[0]}").text
    own = re.search(r'href="(/runs/\w+/pictures/\w+)"', one)[1]
    addresses = ["/runs?q=<script>alert(1)</script>", f"/explore?{both}", f"/trends?{both}", f"/compare?{both}", own]
    for address in addresses:
        response = browser.get(address)
        assert response.status_code == 200, address
        assert not re.search(r"<(script>alert|img src=x|b onclick)", response.text)
        assert not re.search(
            r"""\son\w+=["']?alert""",
            response.text.replace("onerror=alert(1)&gt;", "").replace("onclick=alert(1)&gt;", ""),
        )


def test_html_of_a_run_is_text_in_a_folder_of_pages(hostile, tmp_path):
    written = write_site([str(hostile)], tmp_path / "site", tmp_path, has_reports=False)
    assert written == ["index.html", "run-1.html", "run-2.html", "side-by-side-1.html"]
    for name in written:
        text = (tmp_path / "site" / name).read_text("utf-8")
        assert not re.search(r"<(script>alert|img src=x|b onclick)", text)
        assert len(re.findall("<script>", text)) == 1  # the page's own, which its policy names
        assert not re.search(
            r"""\son\w+=["']?alert""", text.replace("onerror=alert(1)&gt;", "").replace("onclick=alert(1)&gt;", "")
        )
        assert "default-src 'none'; img-src 'self' file: data:;" in unescape(text)


def test_there_is_no_inline_script_or_style(browser):
    first = ids(browser)["step-900"]
    own = re.search(r'href="(/runs/\w+/pictures/\w+)"', browser.get(f"/explore?run={first}").text)[1]
    for address in ("/runs", "/login", f"/explore?run={first}", "/trends", own, "/nowhere"):
        page = browser.get(address).text
        assert not re.search(r"<script(?! src=)", page)
        assert not re.search(r"<style|\sstyle=|\son\w+=", page)
        assert not re.search(r'(src|href)="(https?:)?//', page)


def test_the_server_is_made_of_its_settings_alone(runs, tmp_path):
    first, second = (create_app(ServerSettings(runs=(str(runs),), cache=tmp_path)) for _ in range(2))
    assert first.state.settings.session_key != second.state.settings.session_key
