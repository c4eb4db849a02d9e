"""Spark on one machine: its environment, and the jars of Delta Lake, fetched once.

Resolving jars is Spark's own work (`spark-submit --packages`), done into a directory of ours and
checked against the committed `jars.lock`. Afterwards every job names the files, so that no submit
asks a registry again. The same JVM leaves an archive of the classes that a first job loads; the next ones
start from it, with a third less work. A JVM that cannot use it, another version say, does without.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

from hermit.embedded.java import java_home
from hermit.errors import Unavailable

_LOCK = Path(__file__).with_name("jars.lock")
_CLASSES = "classes.jsa"
_FIRST_JOB = """
from pyspark.sql import SparkSession
SparkSession.builder.getOrCreate().sparkContext.parallelize([1, 2], 2).map(str).collect()
"""
_COORDINATES = "io.delta:delta-spark_4.2_2.13:4.4.0,org.postgresql:postgresql:42.7.7"


def environment() -> dict[str, str]:
    """What a process needs to start Spark from the installed package."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise Unavailable("pyspark is not installed", hint="pip install pyspark")
    home = Path(spec.origin).parent
    return {
        "JAVA_HOME": str(java_home()),
        "SPARK_HOME": str(home),
        "PYSPARK_PYTHON": sys.executable,
        "PATH": os.pathsep.join([str(home / "bin"), os.environ.get("PATH", "")]),
    }


def shared_classes(home: Path) -> dict[str, str]:
    """What lets a JVM start from the classes that an earlier one loaded, where there is such an archive."""
    archive = home / "jars" / _CLASSES
    return _submit_options(f"-XX:SharedArchiveFile={archive}") if archive.exists() else {}


def _submit_options(option: str) -> dict[str, str]:
    return {"SPARK_SUBMIT_OPTS": f'{os.environ.get("SPARK_SUBMIT_OPTS", "")} "{option}"'.strip()}


def conf() -> dict[str, str]:
    """What a job of ours needs of Spark: little. Rows never enter the JVM, and nobody looks at its UI."""
    return {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto",
        "spark.log.level": "WARN",
    }


def jars(home: Path) -> list[Path]:
    """The jars, fetched on first use. Each file's checksum is that of the lock file."""
    target = home / "jars"
    wanted = _read_lock()
    if not _is_complete(target):
        target.mkdir(parents=True, exist_ok=True)
        with (target / ".lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not _is_complete(target):
                _fetch(home, target, wanted)
                (target / ".complete").write_text(_LOCK.read_text())
    return [target / name for name in sorted(wanted)]


def _is_complete(target: Path) -> bool:
    stamp = target / ".complete"
    return stamp.exists() and stamp.read_text() == _LOCK.read_text()


def _read_lock() -> dict[str, str]:
    lines = (line.split() for line in _LOCK.read_text().splitlines() if not line.startswith("#"))
    return {name: checksum for checksum, name in lines}


def _fetch(home: Path, target: Path, wanted: dict[str, str]) -> None:
    ivy, log, script = home / "ivy", home / "jars.log", home / "first_job.py"
    classes = home / _CLASSES
    classes.unlink(missing_ok=True)
    script.write_text(_FIRST_JOB)
    command = ["spark-submit", "--master", "local[2]", "--packages", _COORDINATES]
    for name, value in {**conf(), "spark.jars.ivy": str(ivy)}.items():
        command += ["--conf", f"{name}={value}"]
    command.append(str(script))
    with log.open("w") as output:
        code = subprocess.call(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, **environment(), **_submit_options(f"-XX:ArchiveClassesAtExit={classes}")},
        )
    found = {path.name: path for path in (ivy / "jars").glob("*.jar")}
    missing = sorted(set(wanted) - set(found))
    if code != 0 or missing:
        what = ", ".join(missing) or _COORDINATES
        raise Unavailable(f"could not fetch spark's jars ({what})", hint=f"see {log}")
    for name, checksum in wanted.items():
        actual = hashlib.sha256(found[name].read_bytes()).hexdigest()
        if actual != checksum:
            raise Unavailable(f"{name} has checksum {actual}, not {checksum} as in jars.lock")
        shutil.copyfile(found[name], target / name)
    if classes.exists():
        classes.replace(target / _CLASSES)
    shutil.rmtree(ivy, ignore_errors=True)
    script.unlink()
