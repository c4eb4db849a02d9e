"""Where everything is: from the environment, or, where nothing was configured, embedded under one home.

| variable | meaning | default |
|---|---|---|
| `HERMIT_HOME` | all local state | `.hermit` in the checkout, or in the user's home |
| `HERMIT_STASH_URL` | libpq URI or connection string of the stash | the embedded PostgreSQL |
| `HERMIT_PERSIST_LOCATION` | directory or object-store URI under which shards live | `HERMIT_HOME/shards` |
| `HERMIT_ORGANIZATION_ID` | the catalog | made once, kept in `HERMIT_HOME/organization_id` |
| `HERMIT_SPARK_MASTER` | where jobs run | `local[*]` |
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from hermit.errors import InvalidInput, Unavailable
from hermit.identity import parse_organization_id, shard_id


@dataclass(frozen=True)
class Settings:
    """The resolved settings of one catalog."""

    root: Path
    home: Path
    organization_id: uuid.UUID
    configured_stash_url: str | None
    shards: str
    spark_master: str

    @property
    def stash_is_embedded(self) -> bool:
        return self.configured_stash_url is None

    @property
    def stash_url(self) -> str:
        """What to connect to. When the stash is embedded, only inside `running_stores`."""
        if self.configured_stash_url is not None:
            return self.configured_stash_url
        from hermit.embedded.postgres import EmbeddedPostgres

        return EmbeddedPostgres(self.home / "postgres").url()

    @property
    def shard_id(self) -> str:
        return shard_id(self.organization_id)

    @property
    def persist_location(self) -> str:
        """The location of this catalog's shard."""
        return f"{self.shards.rstrip('/')}/{self.shard_id}"


def load(organization_id: str | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    """Read the settings. Malformed input is an error; nothing is started."""
    env = os.environ if environ is None else environ
    root = Path(env.get("HERMIT_ROOT") or Path(__file__).resolve().parents[2])
    home = Path(env.get("HERMIT_HOME") or _default_home(root)).absolute()
    given = organization_id or env.get("HERMIT_ORGANIZATION_ID")
    stash_url = env.get("HERMIT_STASH_URL")
    if stash_url is not None and not stash_url.strip():
        raise InvalidInput("HERMIT_STASH_URL is set but empty", hint="unset it to use the embedded stash")
    return Settings(
        root=root,
        home=home,
        organization_id=parse_organization_id(given) if given else _own_organization_id(home),
        configured_stash_url=stash_url,
        shards=env.get("HERMIT_PERSIST_LOCATION") or str(home / "shards"),
        spark_master=env.get("HERMIT_SPARK_MASTER") or "local[*]",
    )


def _default_home(root: Path) -> Path:
    """Beside the launcher in a checkout; an installed package has no place of its own to write to."""
    return (root if (root / "hermit").is_file() else Path.home()) / ".hermit"


@contextlib.contextmanager
def running_stores(settings: Settings) -> Iterator[Settings]:
    """Hold the embedded PostgreSQL, if that is the stash, for as long as the block runs."""
    if not settings.stash_is_embedded:
        yield settings
        return
    from hermit.embedded.postgres import EmbeddedPostgres

    server = EmbeddedPostgres(settings.home / "postgres")
    server.start()
    try:
        yield settings
    finally:
        server.release()


def ensure_home(home: Path) -> None:
    """Make the home directory, or say clearly why that is not possible."""
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Unavailable(f"cannot make {home}: {error.strerror}", hint="set HERMIT_HOME") from error
    if not os.access(home, os.W_OK | os.X_OK):
        raise Unavailable(f"cannot write to {home}", hint="set HERMIT_HOME to a directory that you own")


def _own_organization_id(home: Path) -> uuid.UUID:
    path = home / "organization_id"
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        return parse_organization_id(path.read_text().strip())
    ensure_home(home)
    # Two first starts at once must agree: link(2) lets exactly one name win.
    mine = home / f"organization_id.{uuid.uuid4().hex}"
    mine.write_text(f"{uuid.uuid4()}\n")
    with contextlib.suppress(FileExistsError):
        os.link(mine, path)
    mine.unlink()
    return parse_organization_id(path.read_text().strip())
