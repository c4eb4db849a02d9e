"""The secrets that docker-compose.yaml asks for: passwords and keys in `.env`, certificates as files.

`.env.example` is the list of names; here is what each one is made of. Everything is random, readable by its
owner alone, and made once: the databases in the volumes know the first passwords and no others.
"""

from __future__ import annotations

import base64
import os
import secrets
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

from hermit.embedded import certificates
from hermit.errors import InvalidInput

STASH_NAMES = ("stash", "localhost", "127.0.0.1")


def _password() -> str:
    # Hexadecimal: it stands in URLs, in JSON and in .env as it is.
    return secrets.token_hex(24)


def _fernet_key() -> str:
    return base64.urlsafe_b64encode(os.urandom(32)).decode()


VALUES: Mapping[str, Callable[[], str]] = {
    "AIRFLOW_ADMIN_PASSWORD": _password,
    "AIRFLOW_DB_PASSWORD": _password,
    "REDIS_PASSWORD": _password,
    "STASH_PASSWORD": _password,
    "SPARK_SECRET": _password,
    "API_SECRET": _password,
    "JWT_SECRET": _password,
    "FERNET_KEY": _fernet_key,
    "HERMIT_ORGANIZATION_ID": lambda: str(uuid.uuid4()),
}


def write(root: Path) -> list[Path]:
    """Make `.env` and the certificates of a new deployment."""
    target = root / ".env"
    if target.exists():
        raise InvalidInput(
            f"{target} exists, and the databases know its passwords",
            hint="--renew-certificates leaves it alone; remove it only together with the volumes",
        )
    lines = [f"{name}={make()}" for name, make in VALUES.items()]
    renewed = renew(root)
    _write_once(target, "\n".join([*lines, ""]).encode(), 0o600)
    return [target, *renewed]


def renew(root: Path) -> list[Path]:
    """New certificates for the stash; its clients must be started again with it."""
    if not (root / "docker-compose.yaml").exists():
        raise InvalidInput(f"{root} holds no docker-compose.yaml", hint="name its directory with --directory")
    folder = root / "deploy" / "secrets"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    made = certificates.make(STASH_NAMES)
    # Certificates are for everybody: containers read them as users that this machine does not know.
    files = {
        "stash-ca.crt": (made.authority, 0o644),
        "stash.crt": (made.certificate, 0o644),
        "stash.key": (made.key, 0o600),
    }
    for name, (text, mode) in files.items():
        _write_once(folder / name, text, mode)
    return [folder / name for name in files]


def _write_once(path: Path, text: bytes, mode: int) -> None:
    """Whole or not at all, and a secret is never readable by others, not even for a moment."""
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(text)
    draft.chmod(mode)
    draft.replace(path)
