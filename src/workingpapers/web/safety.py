"""Who may ask for what: host, origin, token, size of a request, and the headers of every answer."""

from __future__ import annotations

import hmac
import re
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from workingpapers.web.settings import Settings

TOKEN_COOKIE = "papers_token"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
# Scripts come from this server's files alone. Styles may be inline: the figures (SVG) carry style attributes.
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; form-action 'self'; frame-src 'self'; frame-ancestors 'none'; base-uri 'none'"
)
# A report was written by a command from the user's data: it may draw, and nothing else.
REPORT_POLICY = (
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; frame-ancestors 'self'"
)
HEADERS = {
    "content-security-policy": CONTENT_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}


class Safety:
    """Middleware around the whole page; what it refuses reaches no handler."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app = app
        self.settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or pass on and add the headers."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    answer.setdefault(name, value)
            await send(message)

        refusal = self.refusal(scope, headers)
        if refusal is not None:
            await refusal(scope, receive, send_with_headers)
            return
        received = 0

        async def receive_within_limit() -> Message:
            nonlocal received
            message = await receive()
            if message["type"] == "http.request":
                received += len(message.get("body", b""))
                if received > self.settings.upload_limit:
                    raise HTTPException(413, self.too_large())
            return message

        await self.app(scope, receive_within_limit, send_with_headers)

    def refusal(self, scope: Scope, headers: Headers) -> Response | None:
        """Return the answer to a request that must not be served, or None."""
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self.settings.knows_host(host_name(hosts[0])):
            return refuse(scope, 421, "This page does not answer for that host; ask for it as 'papers serve' printed.")
        if scope["method"] not in SAFE_METHODS and not same_origin(headers):
            return refuse(scope, 403, "The request came from another site; use this page's own forms.")
        declared = headers.get("content-length", "")
        if declared.isdigit() and int(declared) > self.settings.upload_limit:
            return refuse(scope, 413, self.too_large())
        if self.settings.token:
            return self.ask_for_token(scope, headers)
        return None

    def ask_for_token(self, scope: Scope, headers: Headers) -> Response | None:
        """Return None where the request carries the token, else the answer that asks for it.

        ``?token=`` is taken once: it becomes a cookie, and the address is shown again without it.
        """
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = dict(query).get("token", "")
        if given and self.is_token(given) and scope["method"] in SAFE_METHODS:
            rest = urlencode([(name, value) for name, value in query if name != "token"])
            answer = RedirectResponse(local_path(scope["path"]) + (f"?{rest}" if rest else ""), 303)
            answer.set_cookie(TOKEN_COOKIE, given, httponly=True, samesite="strict", max_age=30 * 86400)
            return answer
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.is_token(bearer.strip()):
            return None
        if self.is_token(cookie(headers, TOKEN_COOKIE)):
            return None
        if scope["path"].startswith("/static/") and scope["method"] in SAFE_METHODS:
            return None
        sentence = "This page needs its token; open the address that 'papers serve' printed, token included."
        refusal = refuse(scope, 401, sentence)
        refusal.headers["www-authenticate"] = "Bearer"
        return refusal

    def is_token(self, text: str) -> bool:
        """Whether `text` is the token; takes as long for a wrong one as for the right one."""
        return hmac.compare_digest(text.encode("utf-8", "replace"), self.settings.token.encode())

    def too_large(self) -> str:
        """Return the sentence about a body over the limit."""
        limit = self.settings.upload_limit
        shown = f"{limit >> 20} MiB" if limit >= 1 << 20 else f"{limit} bytes"
        return f"The upload is larger than {shown}; use the command line for such files."


def same_origin(headers: Headers) -> bool:
    """Whether a request that changes something comes from this page, or from a program that is no browser.

    Every browser sends ``Origin`` with a POST, and current ones ``Sec-Fetch-Site``; both must name this page.
    """
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = headers.get("origin")
    if origin is None:
        return True
    parts = urlsplit(origin) if re.fullmatch(r"https?://[^/\s]+", origin) else None
    return parts is not None and parts.netloc.lower() == headers.get("host", "").lower()


def host_name(header: str) -> str:
    """Return the host of a Host header without its port."""
    match = re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[^:\[\]\s]+)(?::\d{1,5})?", header.strip())
    return match.group(1) if match else ""


def local_path(path: str) -> str:
    """Return a path that a redirect cannot mistake for another host."""
    return "/" + path.lstrip("/\\")


def cookie(headers: Headers, name: str) -> str:
    """Return a cookie of the request, or an empty string."""
    jar: SimpleCookie = SimpleCookie()
    try:
        jar.load(headers.get("cookie", ""))
    except CookieError:
        return ""
    return jar[name].value if name in jar else ""


def refuse(scope: Scope, status: int, sentence: str) -> Response:
    """Return a refusal: JSON under ``/api``, plain text elsewhere."""
    if scope["path"].startswith("/api"):
        return JSONResponse({"detail": sentence}, status)
    return PlainTextResponse(sentence + "\n", status)
