"""Who may come in: sessions, access links, and the checks that every request has to pass.

See `docs/security.md` for the threats that each of these answers.
"""

import getpass
import hashlib
import hmac
import ipaddress
import os
import secrets
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from itsdangerous import BadSignature, URLSafeTimedSerializer

from poolwise.labelling.store import Store

# Seconds that a session lasts, and that the list of people is trusted for before it is read again.
_SESSION, _PEOPLE = 30 * 86_400, 2.0

# Failed log-ins per minute: of one address, and of all together.
_FROM_ONE, _FROM_ALL = 10, 100

# Seconds after which the name of a browser that has gone may be given to another.
_GONE = 600.0

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
"""Names by which a machine reaches itself."""


def user_name() -> str:
    """What the person at this machine is called."""
    try:
        return getpass.getuser() or "me"
    except (OSError, KeyError):
        return "me"


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine only."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def host_of(header: str) -> str | None:
    """The name in a Host header, without the port; None if it makes no sense.

    Example:
        >>> host_of("localhost:8000"), host_of("[::1]:8000"), host_of("a b")
        ('localhost', '::1', None)
    """
    try:
        parts = urlsplit(f"//{header}")
        _ = parts.port
    except ValueError:
        return None
    plain = parts.hostname is not None and not any((parts.username, parts.password, parts.path, parts.query))
    return parts.hostname if plain and not any(letter.isspace() for letter in header) else None


@dataclass(frozen=True)
class Rules:
    """What the server was told about who may come in.

    Attributes:
        owner: the person who started it; may add and revoke others.
        links: whether everybody needs an access link.
        hosts: names by which browsers may call this server.
        addresses: whether they may also call it by any numeric address. Such a name cannot be taken over with DNS.
    """

    owner: str
    links: bool = False
    hosts: frozenset[str] = LOOPBACK
    addresses: bool = False

    @classmethod
    def of(cls, host: str, owner: str, names: Iterable[str] = ()) -> "Rules":
        """The rules for an address to listen on.

        Args:
            host: the address.
            owner: the person who starts the server.
            names: other names by which browsers reach it, as through a proxy.
        """
        names = frozenset(name.lower() for name in names)
        if is_loopback(host):
            return cls(owner, bool(names), LOOPBACK | names)
        own = {host.lower().strip("[]"), socket.gethostname().lower(), socket.getfqdn().lower()}
        return cls(owner, True, LOOPBACK | names | own, addresses=True)

    def knows(self, header: str) -> bool:
        """Whether a Host header names this server. A page of a rebound name fails here."""
        host = host_of(header)
        if host is None:
            return False
        if host.lower() in self.hosts:
            return True
        try:
            ipaddress.ip_address(host)
        except ValueError:
            return False
        return self.addresses


@dataclass(frozen=True)
class Session:
    """One browser of one person.

    Attributes:
        person: who.
        browser: a random name of the browser.
        owner: whether they may add and revoke people.
        since: when their access link was made; 0 where there are no links.
    """

    person: str
    browser: str
    owner: bool = False
    since: float = 0.0


class RateLimit:
    """A limit on failures per minute.

    Args:
        one: from one address.
        all: from all addresses together.

    Example:
        >>> limit = RateLimit(one=1)
        >>> limit.wait("a"), limit.failed("a"), limit.wait("a") > 0, limit.wait("b")
        (0.0, None, True, 0.0)
    """

    def __init__(self, one: int = _FROM_ONE, all: int = _FROM_ALL) -> None:
        self._one, self._all = one, all
        self._failures: deque[tuple[float, str]] = deque()
        self._lock = threading.Lock()

    def wait(self, address: str, now: float | None = None) -> float:
        """Seconds until this address may try again; 0 for now."""
        now = time.monotonic() if now is None else now
        with self._lock:
            while self._failures and self._failures[0][0] <= now - 60:
                self._failures.popleft()
            mine = [at for at, where in self._failures if where == address]
            waits = [mine[-self._one] + 60 - now] if len(mine) >= self._one else []
            if len(self._failures) >= self._all:
                waits.append(self._failures[-self._all][0] + 60 - now)
        return max(waits, default=0.0)

    def failed(self, address: str, now: float | None = None) -> None:
        """Count a failure."""
        with self._lock:
            self._failures.append((time.monotonic() if now is None else now, address))


def signing_key(uid: str, folder: Path) -> bytes:
    """The key that signs the cookies of a project.

    It is not kept in the project, which may come from somebody else, or be given to somebody else.

    Args:
        uid: of the project.
        folder: of the project.
    """
    home = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "poolwise"
    place = home / "server-key"
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            with open(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(secrets.token_hex(32))
        except FileExistsError:
            pass
        root = bytes.fromhex(place.read_text())
        if len(root) != 32:
            raise ValueError
    except (OSError, ValueError):
        root = secrets.token_bytes(32)  # sessions then end with this process
    return hmac.digest(root, f"{uid}\n{folder.resolve()}".encode(), "sha256")


@dataclass
class Access:
    """Sessions: who sends a request, and whether the request comes from our own page.

    Args:
        rules: what the server was told.
        key: signs cookies and tokens.
        store: knows the people.
        cookie: the name of the cookie.
    """

    rules: Rules
    key: bytes
    store: Store
    cookie: str = "poolwise"
    limit: RateLimit = field(default_factory=RateLimit)

    def __post_init__(self) -> None:
        self._signer = URLSafeTimedSerializer(self.key, "poolwise session", signer_kwargs={"digest_method": _sha256})
        self._people: Mapping[str, float] = {}
        self._read, self._lock = 0.0, threading.Lock()
        self._names: dict[str, tuple[str, float]] = {}

    # Sessions

    def session(self, cookie: str | None) -> Session | None:
        """The session of a cookie; None if it is none of ours, too old, or of a person without access."""
        try:
            found = self._signer.loads(cookie or "", max_age=_SESSION)
            person, browser, since = str(found["p"]), str(found["b"]), float(found["s"])
        except (BadSignature, KeyError, TypeError, ValueError):
            return None
        if not self.rules.links:
            return Session(person, browser, True) if since == 0.0 else None
        if self.people().get(person) != since:
            return None
        return Session(person, browser, person == self.rules.owner, since)

    def signed(self, session: Session) -> str:
        """The cookie of a session."""
        return str(self._signer.dumps({"p": session.person, "b": session.browser, "s": session.since}))

    @property
    def fresh(self) -> bool:
        """Whether sessions can be checked without asking the store who has access."""
        return not self.rules.links or (self._read > 0 and time.monotonic() - self._read <= _PEOPLE)

    def people(self) -> Mapping[str, float]:
        """When the access of each person began, for those who have access."""
        with self._lock:
            if time.monotonic() - self._read > _PEOPLE or not self._read:
                self._people = {p.name: p.added for p in self.store.people() if p.revoked is None}
                self._read = time.monotonic()
            return self._people

    def changed(self) -> None:
        """Read the people again at the next request."""
        with self._lock:
            self._read = 0.0

    def visitor(self) -> Session:
        """A session for a browser of this machine, where no links are needed."""
        return Session("", secrets.token_urlsafe(12), True)

    def name_for(self, browser: str, now: float | None = None) -> str:
        """A name for a browser of this machine: that of its owner, with a number if another browser has it now."""
        now = time.monotonic() if now is None else now
        with self._lock:
            leased = self.store.leased()
            number = 1
            while True:
                name = self.rules.owner if number == 1 else f"{self.rules.owner} {number}"
                holder, at = self._names.get(name, ("", -_GONE))
                free = now - at >= _GONE and name not in leased
                if holder == browser or free:
                    self._names[name] = browser, now
                    return name
                number += 1

    def seen(self, session: Session, now: float | None = None) -> None:
        """Remember that a browser is there."""
        with self._lock:
            self._names[session.person] = session.browser, time.monotonic() if now is None else now

    def enter(self, token: str, address: str) -> Session | None:
        """The session of somebody with an access link; None if the link is not valid.

        Args:
            token: from the link. The store compares hashes of tokens, so the time that it takes tells nothing.
            address: where the request comes from.
        """
        person = self.store.person_of(token) if len(token) <= 200 else None
        if person is None:
            self.limit.failed(address)
            return None
        self.changed()
        since = self.people().get(person)
        return None if since is None else Session(person, secrets.token_urlsafe(12), since=since)

    # Requests that change something

    def token(self, session: Session) -> str:
        """What our own pages send with every change, and no other page knows."""
        return hmac.new(self.key, f"change\n{session.browser}\n{session.person}".encode(), "sha256").hexdigest()

    def refusal(self, session: Session, header: Callable[[str], str]) -> str | None:
        """Why a change is refused; None if it comes from our own page.

        Args:
            session: of the browser.
            header: gives a header of the request, empty where there is none.
        """
        origin = header("origin")
        if origin and (origin == "null" or urlsplit(origin).netloc.lower() != header("host").lower()):
            return "this request comes from another site"
        if header("sec-fetch-site") not in ("", "same-origin"):
            return "this request comes from another site"
        if header("content-type").partition(";")[0].strip().lower() != "application/json":
            return "expected JSON"
        if not hmac.compare_digest(header("x-poolwise-token").encode(), self.token(session).encode()):
            return "this page is out of date. Reload it"
        return None


def _sha256(data: bytes = b"") -> "hashlib._Hash":
    return hashlib.sha256(data)
