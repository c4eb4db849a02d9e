"""Connections are libpq's, and secrets stay where they belong."""

from __future__ import annotations

import datetime
import ipaddress
import logging
import socket
import ssl
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID

import psycopg
import pyarrow as pa
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from hermit.embedded.postgres import EmbeddedPostgres
from hermit.errors import HermitError, Unavailable
from hermit.rows import Row
from hermit.stash import RetryPolicy, StashClient
from hermit.stash.bulk import create_side, digests, export, read_range, replace_from_side, write_side
from hermit.stash.connection import Target
from hermit.stash.errors import ConnectionFailed

from .conftest import ClosingClient, nothing, raw
from .proxy import Proxy

PASSWORD = "s3cret/with@odd:chars"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    """A server that asks the role `app` for a password."""
    server = EmbeddedPostgres(tmp_path_factory.mktemp("guarded") / "pg", settings={"fsync": "off"})
    server.start()
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"create role app superuser login password '{PASSWORD}'")
        rules = server.data / "pg_hba.conf"
        rules.write_text("local all app scram-sha-256\n" + rules.read_text())
        connection.execute("select pg_reload_conf()")
    yield server
    server.release()


@pytest.fixture
def app_url(guarded: EmbeddedPostgres) -> str:
    """The URL without the password."""
    return make_conninfo(guarded.url(), user="app")


def test_a_passfile_gives_the_password(
    app_url: str, tmp_path: Path, connect: Callable[..., ClosingClient]
) -> None:
    passfile = tmp_path / "pgpass"
    passfile.write_text("*:*:*:app:" + PASSWORD.replace(":", "\\:") + "\n")
    passfile.chmod(0o600)
    stash = connect(make_conninfo(app_url, passfile=str(passfile))).open(nothing)[0]
    assert stash.confirm().epoch == 1


def test_a_service_file_gives_everything(
    app_url: str, tmp_path: Path, connect: Callable[..., ClosingClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = conninfo_to_dict(app_url, password=PASSWORD, application_name="from the service")
    service = tmp_path / "pg_service.conf"
    service.write_text("[catalog]\n" + "".join(f"{name}={value}\n" for name, value in parts.items()))
    monkeypatch.setenv("PGSERVICEFILE", str(service))
    for url in ("service=catalog", "postgresql://?service=catalog"):
        client = connect(url)
        assert client.open(nothing)[0].epoch >= 1
        assert raw(client, "select current_user, current_setting('application_name')") == [
            ("app", "from the service")
        ]
        assert PASSWORD not in repr(client)


def test_the_environment_counts_as_with_psql(
    app_url: str, connect: Callable[..., ClosingClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = conninfo_to_dict(app_url)
    for name, variable in (("host", "PGHOST"), ("user", "PGUSER"), ("dbname", "PGDATABASE")):
        monkeypatch.setenv(variable, str(parts[name]))
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    assert connect("").open(nothing)[0].epoch == 1


def test_defaults_are_added_only_where_nothing_is_set(
    database_url: str, connect: Callable[..., ClosingClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    def seen(url: str) -> dict[str, str]:
        with Target(url).connect() as connection:
            return connection.info.get_parameters()

    assert seen(database_url)["fallback_application_name"] == "hermit"
    assert seen(database_url)["connect_timeout"] == "10"
    assert seen(make_conninfo(database_url, connect_timeout=3))["connect_timeout"] == "3"
    assert "fallback_application_name" not in seen(make_conninfo(database_url, application_name="mine"))
    monkeypatch.setenv("PGCONNECT_TIMEOUT", "7")
    assert seen(database_url)["connect_timeout"] == "7"


def test_a_wrong_password_is_refused_once(app_url: str, connect: Callable[..., ClosingClient]) -> None:
    for url in (make_conninfo(app_url, password="wrong"), make_conninfo(app_url, passfile="/nowhere")):
        with pytest.raises(ConnectionFailed) as caught:
            connect(url).open(nothing)
        assert caught.value.facts["attempts"] == 1


@pytest.mark.parametrize(
    "settings",
    [
        "-c bytea_output=escape -c standard_conforming_strings=off -c search_path=nowhere",
        "-c client_encoding=LATIN1 -c DateStyle=German -c lc_numeric=C -c TimeZone=Asia/Tokyo",
        "-c client_encoding=SQL_ASCII -c default_transaction_isolation=serializable -c enable_indexscan=off",
        "-c default_transaction_deferrable=on -c transform_null_equals=on -c row_security=off",
    ],
)
def test_what_a_role_or_an_environment_sets_changes_nothing(
    database_url: str, organization_id: UUID, connect: Callable[..., ClosingClient], settings: str
) -> None:
    url = make_conninfo(database_url, options=settings)
    stash = connect(url).open(nothing)[0]
    odd = Row("größe 日本", bytes(range(256)), b"\\x00'")
    stash.write(lambda t: t.append([(odd, 1), (Row("items", b"", b""), 1)]))
    stash.write(lambda t: t.append([(Row("items", b"", b""), -1)]))
    assert stash.read(lambda t: list(t.rows(odd.collection))) == [(odd.key, odd.value)]
    assert stash.read(lambda t: t.get(odd.collection, odd.key)) == odd.value
    before = digests(stash)
    with export(stash, 1) as found:
        assert set(found.collections.values()) == {odd.collection, "items"}
        rows = read_range(url, found, *found.ranges[0]).read_all()
    create_side(stash, "x")
    assert write_side(url, organization_id, "x", rows.to_reader()) == 1
    replace_from_side(stash, "x", config={})
    assert digests(stash) == before == digests(connect(database_url).open_read_only())


def test_an_acknowledged_commit_is_durable_even_where_the_default_is_not(database_url: str) -> None:
    careless = make_conninfo(database_url, options="-c synchronous_commit=off")
    replicated = make_conninfo(database_url, options="-c synchronous_commit=remote_apply")
    for url, expected in ((careless, "on"), (replicated, "remote_apply")):
        with Target(url).connect() as connection:
            assert connection.execute("show synchronous_commit").fetchone() == (expected,)


def test_a_transaction_that_somebody_forgot_ends_by_itself(client: ClosingClient) -> None:
    setting = b"show idle_in_transaction_session_timeout"
    stash, opening = client.open(lambda t: t.execute(setting).fetchone())
    assert opening == ("10min",)
    assert stash.read(lambda t: t.execute(setting).fetchone()) == ("1min",)


def test_the_server_notices_that_the_host_of_a_client_is_gone(tmp_path: Path) -> None:
    server, url = start_on_a_port(tmp_path)
    try:
        with Target(url).connect() as connection:
            names = ("idle", "interval", "count")
            found = [connection.execute(f"show tcp_keepalives_{name}").fetchone() for name in names]
    finally:
        server.release()
    assert found == [("10",), ("5",), ("3",)]


def start_on_a_port(home: Path) -> tuple[EmbeddedPostgres, str]:
    """A server that is reached by TCP: on another port if somebody was quicker to take one."""
    for attempt in range(5):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        server = EmbeddedPostgres(home / str(attempt), tcp_port=port, settings={"fsync": "off"})
        try:
            server.start()
        except Unavailable:
            server.release()
            continue
        return server, f"postgresql://hermit@127.0.0.1:{port}/postgres"
    pytest.fail("no port was free")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that vouches for itself, and its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "postgresql")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    directory = tmp_path_factory.mktemp("tls")
    certificate, private = directory / "server.crt", directory / "server.key"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return certificate, private


def test_tls_options_work_for_both_ways_to_the_server(
    database_url: str,
    organization_id: UUID,
    certificate: tuple[Path, Path],
    connect: Callable[..., ClosingClient],
) -> None:
    """A proxy speaks TLS for the server, whose build has none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    with Proxy(database_url, tls=context) as proxy:
        url = make_conninfo(proxy.url, sslmode="verify-full", sslrootcert=str(certificate[0]))
        client = connect(url)
        with client.handles:
            stash = client.open(lambda t: t.append([(Row("items", b"k", b"v"), 1)]))[0]
            with export(stash, 1) as found:
                rows = read_range(url, found, *found.ranges[0]).read_all()
            create_side(stash, "x")
            assert write_side(url, organization_id, "x", rows.to_reader()) == 1
        distrustful = make_conninfo(url, sslrootcert="system", sslmode="verify-full")
        with pytest.raises(ConnectionFailed) as caught:
            connect(distrustful).fence()
        assert caught.value.facts["attempts"] == 1


def test_secrets_are_in_no_message_no_traceback_no_log_and_no_process_list(
    app_url: str, organization_id: UUID, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    parts = conninfo_to_dict(app_url)
    quoted = PASSWORD.replace("/", "%2F").replace("@", "%40").replace(":", "%3A")
    good = f"postgresql://app:{quoted}@/{parts['dbname']}?host={parts['host']}"
    policy = RetryPolicy(attempts_max=2, delay_s_first=0.001)
    wrong = PASSWORD + "x"
    urls = [
        good.replace("?host", "?no_such_option=1&host"),
        good.replace("postgresql", "postgresq"),
        good.replace("/postgres", "/no_such_database"),
        make_conninfo(app_url, password=wrong),
        f"postgresql://app:{quoted}@127.0.0.1:1/x",
        f"postgresql://app:{quoted}@no-such-host.invalid/x",
        f"postgresql://app:{quoted}@127.0.0.1:notaport/x",
    ]
    empty = pa.schema([("collection_id", pa.int64()), ("key", pa.binary()), ("value", pa.binary())])
    shown: list[str] = []
    for url in urls:
        for operation in (
            lambda url=url: StashClient(url, organization_id, retry=policy).open(nothing),
            lambda url=url: write_side(url, organization_id, "x", empty.empty_table().to_reader()),
        ):
            with pytest.raises(HermitError) as caught:
                operation()
            shown += [
                str(caught.value),
                repr(caught.value),
                "".join(traceback.format_exception(caught.value)),
            ]
    client = StashClient(good, organization_id)
    with client.open(nothing)[0] as stash:
        shown += [repr(client), repr(stash), str(stash)]
        (activity,) = raw(client, "select string_agg(pg_stat_activity::text, ' ') from pg_stat_activity")
        shown += [str(activity), Path("/proc/self/cmdline").read_text()]
    shown += [record.getMessage() for record in caplog.records] + [str(r.exc_info) for r in caplog.records]
    for text in shown:
        for secret in (PASSWORD, quoted):
            assert secret not in text
