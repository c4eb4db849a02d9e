"""Starting and stopping Airflow's four processes beside the embedded PostgreSQL servers.

What runs is written down in `airflow/services.json`: per component its pid and start time, so that a pid
which the system gave to somebody else is never mistaken for ours. Stopping ends the components, then
everything that still carries this home's mark in its environment, a task's Spark job say, and everything
that is still in the session of a component. Airflow's workers write their titles over their environment, and
outlive a scheduler that was killed, with its connections to the database and the locks that it held there.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hermit.embedded import airflow, metadata
from hermit.embedded.postgres import EmbeddedPostgres
from hermit.errors import InvalidInput, Unavailable
from hermit.settings import Settings

COMPONENTS = ("api-server", "scheduler", "dag-processor", "triggerer")
_PORT_DEFAULT = 8080
_HEALTHY_WITHIN_S = 300
_STOPPED_WITHIN_S = 15
_MARK = "HERMIT_SERVICES"
# Start times are worked out from the moment of boot, which the kernel rounds, and shifts with its clock.
_START_TIMES_DIFFER_S = 5


@dataclass(frozen=True)
class Services:
    """A running Airflow: where it is, and which processes it is made of."""

    port: int
    pids: dict[str, tuple[int, float]]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


def running(settings: Settings) -> Services | None:
    """The Airflow that an earlier `up` started, if all of it still lives."""
    services = _read(settings)
    if services is None or not all(_is_alive(*process) for process in services.pids.values()):
        return None
    return services


def up(settings: Settings, port: int | None, say: Callable[[str], None]) -> Services:
    """Start what is not running and wait until Airflow reports every component healthy."""
    services = running(settings)
    if services is not None:
        return _wait_until_healthy(settings, services)
    if _read(settings) is not None:
        say("clearing away what is left of an earlier start")
        _end_processes(settings)
    chosen, reservation = _choose_port(port)
    stash = _stash(settings)
    if settings.stash_is_embedded:
        stash.start()
    say("preparing airflow's database")
    try:
        with metadata.running(settings) as database:
            say(f"starting airflow on port {chosen}")
            hold = (*stash.hold, *database.hold, reservation.fileno())
            services = _start_components(settings, chosen, hold)
            return _wait_until_healthy(settings, services)
    except Unavailable:
        down(settings)
        raise
    finally:
        reservation.close()
        stash.release()


def down(settings: Settings) -> bool:
    """End everything that runs for this home. True if there was anything to end."""
    ended = _end_processes(settings)
    for server in (airflow.database(settings), _stash(settings)):
        if server.is_running():
            server.stop()
            ended = True
    return ended


def _stash(settings: Settings) -> EmbeddedPostgres:
    return EmbeddedPostgres(settings.home / "postgres")


def marked(settings: Settings, environment: dict[str, str]) -> dict[str, str]:
    """The environment of a process that `down` must find, whatever became of its parent."""
    return {**environment, _MARK: str(airflow.home(settings))}


def log_file(settings: Settings, component: str) -> Path:
    """Where a component's output goes."""
    return airflow.home(settings) / "logs" / f"{component}.log"


def _state_file(settings: Settings) -> Path:
    return airflow.home(settings) / "services.json"


def _read(settings: Settings) -> Services | None:
    try:
        raw = json.loads(_state_file(settings).read_text())
        return Services(int(raw["port"]), {name: (int(p), float(t)) for name, (p, t) in raw["pids"].items()})
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        return Services(0, {"unreadable": (0, 0.0)})


def _choose_port(wanted: int | None) -> tuple[int, socket.socket]:
    """A port that nobody uses, and the socket that keeps other starts from choosing it as well."""
    for port in (wanted,) if wanted is not None else (_PORT_DEFAULT, *(_free_port() for _ in range(10))):
        reservation = _reserve(port) if _is_free(port) else None
        if reservation is not None:
            return port, reservation
    raise InvalidInput(f"port {wanted} is in use", hint="name another, or none at all")


def _reserve(port: int) -> socket.socket | None:
    """Claim a port on this machine before anything listens there, which takes Airflow half a minute.

    The name is gone with the last process that holds the socket: Airflow's own inherit it.
    """
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        if sys.platform == "linux":
            claim.bind(f"\0hermit-airflow-{port}")
    except OSError:
        claim.close()
        return None
    return claim


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except (OSError, OverflowError):
            return False
        return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _start_components(settings: Settings, port: int, hold: Sequence[int]) -> Services:
    """Start them, each holding the embedded server: a command that ends must not stop it under them."""
    environment = marked(settings, airflow.environment(settings, port))
    environment["AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT"] = str(_free_port())
    environment["AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT"] = str(_free_port())
    environment["AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_SERVER_PORT"] = str(_free_port())
    pids: dict[str, tuple[int, float]] = {}
    for component in COMPONENTS:
        path = log_file(settings, component)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "airflow", component],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                start_new_session=True,
                pass_fds=hold,
                cwd=settings.home,
            )
        pids[component] = (process.pid, _start_time(process.pid))
        services = Services(port, pids)
        # Written after every start, so that a crash of ours in between leaves nothing unaccounted for.
        _state_file(settings).write_text(json.dumps(asdict(services)))
    return services


def _wait_until_healthy(settings: Settings, services: Services) -> Services:
    deadline = time.monotonic() + _HEALTHY_WITHIN_S
    sick: list[str] = ["api-server"]
    while time.monotonic() < deadline:
        for component, process in services.pids.items():
            if not _is_alive(*process):
                raise Unavailable(
                    f"airflow's {component} ended: {_last_line(log_file(settings, component))}",
                    hint=f"its output is in {log_file(settings, component)}",
                )
        sick = _sick_components(services.url)
        if not sick:
            return services
        time.sleep(0.25)
    raise Unavailable(
        f"airflow was not healthy after {_HEALTHY_WITHIN_S} s: {', '.join(sick)}",
        hint=f"its logs are in {log_file(settings, 'scheduler').parent}",
    )


def _sick_components(url: str) -> list[str]:
    try:
        with urllib.request.urlopen(f"{url}/api/v2/monitor/health", timeout=5) as response:  # noqa: S310
            health: dict[str, Any] = json.load(response)
    except (urllib.error.URLError, OSError, ValueError):
        return ["api-server"]
    return [name for name, component in health.items() if (component or {}).get("status") != "healthy"]


def _last_line(path: Path) -> str:
    lines = [line for line in path.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1].strip() if lines else "no output"


def processes(settings: Settings) -> list[Any]:
    """Every process that runs for this home: Airflow's components, tasks, and what these started."""
    import psutil

    mark = str(airflow.home(settings))
    services = _read(settings)
    sessions = dict(services.pids.values()) if services else {}
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and (_is_marked(process, mark) or _is_in(process, sessions)):
                found.append(process)
    return found


def _is_marked(process: Any, mark: str) -> bool:
    import psutil

    try:
        return bool(process.environ().get(_MARK) == mark)
    except psutil.AccessDenied:
        return False


def _is_in(process: Any, sessions: Mapping[int, float]) -> bool:
    """Whether a component leads, or led, this process's session: its number is given to nobody meanwhile."""
    leader = os.getsid(process.pid)
    return (
        leader > 0 and leader in sessions and process.create_time() > sessions[leader] - _START_TIMES_DIFFER_S
    )


def _end_processes(settings: Settings) -> bool:
    import psutil

    services = _read(settings)
    roots = [pid for pid, start in services.pids.values() if _is_alive(pid, start)] if services else []
    found = {process.pid: process for process in processes(settings)}
    for pid in roots:
        with contextlib.suppress(psutil.NoSuchProcess):
            found[pid] = psutil.Process(pid)
    # Components first and gently; what they leave behind after that is ended without asking.
    _end([found[pid] for pid in roots if pid in found])
    _end(processes(settings))
    _state_file(settings).unlink(missing_ok=True)
    return bool(found)


def _end(processes: Iterable[Any]) -> None:
    import psutil

    processes = list(processes)
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
    _, alive = psutil.wait_procs(processes, timeout=_STOPPED_WITHIN_S)
    for process in alive:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(alive, timeout=_STOPPED_WITHIN_S)


def _start_time(pid: int) -> float:
    import psutil

    try:
        return float(psutil.Process(pid).create_time())
    except psutil.NoSuchProcess:
        return 0.0


def _is_alive(pid: int, start_time: float) -> bool:
    import psutil

    try:
        process = psutil.Process(pid)
        same = abs(process.create_time() - start_time) < _START_TIMES_DIFFER_S
        return same and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
