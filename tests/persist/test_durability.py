"""Nothing is acknowledged or handed on before it is durable; readers change nothing; no process is needed."""

from __future__ import annotations

import ast
import threading
from pathlib import Path

import pytest

from hermit import persist
from hermit.persist import PersistClient
from hermit.persist.storage.disk import OsDisk
from hermit.persist.storage.local import local_storage
from hermit.persist.storage.notify import wait_in_folder


class BlockedDisk(OsDisk):
    """A disk whose syncs wait until they are let through."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.open.set()
        self.waiting = threading.Event()

    def sync(self, path: str) -> None:
        self._wait()
        super().sync(path)

    def sync_folder(self, path: str) -> None:
        self._wait()
        super().sync_folder(path)

    def _wait(self) -> None:
        if not self.open.is_set():
            self.waiting.set()
            assert self.open.wait(60)


@pytest.mark.row("P-40")
@pytest.mark.row("P-58")
def test_a_write_is_neither_acknowledged_nor_seen_while_the_disk_holds_it_up(tmp_path: Path) -> None:
    disk = BlockedDisk()
    with PersistClient.open("", storage=local_storage(tmp_path / "location", disk)) as client:
        write, _ = client.create_or_load("a")
        write.seal(1).result(60)
        listener = PersistClient.open(tmp_path / "location", mode="ro").listen(["a"], 0)
        listener.poll()
        disk.open.clear()
        disk.waiting.clear()
        written = write.write([((b"k", b"v"), 1, 1)])
        sealed = write.seal(2)
        assert disk.waiting.wait(60)
        assert not written.done()
        assert not sealed.done()
        assert listener.poll() == []
        disk.open.set()
        sealed.result(60)
        assert [update.key for step in listener.poll(60) for update in step.updates] == [b"k"]


class RecordingDisk(OsDisk):
    """Remembers which folders were synced, and refuses to change anything."""

    def __init__(self) -> None:
        self.synced: list[str] = []

    def sync_folder(self, path: str) -> None:
        self.synced.append(path)
        super().sync_folder(path)

    def write(self, path: str, data: bytes, *, append: bool = False) -> None:
        raise AssertionError(f"a reader wrote {path}")

    def link(self, source: str, target: str) -> bool:
        raise AssertionError(f"a reader linked {target}")

    def rename(self, source: str, target: str) -> None:
        raise AssertionError(f"a reader renamed {source}")

    def unlink(self, path: str) -> None:
        raise AssertionError(f"a reader deleted {path}")

    def make_folder(self, path: str) -> bool:
        raise AssertionError(f"a reader made {path}")


@pytest.mark.row("P-40")
@pytest.mark.row("P-50")
def test_a_reader_writes_nothing_and_syncs_what_it_found_before_it_hands_it_on(tmp_path: Path) -> None:
    writer = PersistClient.open(tmp_path / "location")
    disk = RecordingDisk()
    reader = PersistClient.open("", storage=local_storage(tmp_path / "location", disk), mode="ro")
    assert reader.state().version == -1
    for time in range(60):
        writer.compare_and_append(
            {"a": [(b"%d" % time, b"v", time, 1)]}, expected={"a": time}, new_upper={"a": time + 1}
        )
    listener = reader.listen(["a"], 0)
    log = str(tmp_path / "location" / "_delta_log")
    for time in range(60, 63):
        disk.synced.clear()
        writer.compare_and_append({}, expected={"a": time}, new_upper={"a": time + 1})
        assert listener.poll()
        assert disk.synced == [log] or time == 60
    assert len(list(reader.snapshot(["a"]))) == 60
    assert reader.lock_holder() is None
    assert writer.state() == reader.state()


@pytest.mark.row("P-51")
def test_the_runtime_is_a_thread_of_this_process_and_nothing_else(tmp_path: Path) -> None:
    def children() -> set[str]:
        tasks = Path("/proc/self/task").iterdir()
        return {pid for task in tasks for pid in (task / "children").read_text().split()}

    def runtimes() -> set[threading.Thread]:
        return {thread for thread in threading.enumerate() if thread.name == "hermit-persist"}

    processes, others = children(), runtimes()  # of other tests: garbage that nobody collected yet
    with PersistClient.open(tmp_path / "location") as client:
        client.create_or_load("a")[0].seal(1).result(60)
        (runtime,) = runtimes() - others
        assert children() <= processes
    assert not runtime.is_alive()


@pytest.mark.row("P-49")
def test_a_waiting_reader_is_told_by_the_kernel_and_does_not_depend_on_looking_again(tmp_path: Path) -> None:
    name = tmp_path / "commit"
    found: list[bool] = []
    thread = threading.Thread(
        target=lambda: found.append(wait_in_folder(str(tmp_path), name.exists, 60, look_again_s=3600))
    )
    thread.start()
    # Whether the name appears before or after the watch is set up, it is noticed.
    name.write_bytes(b"")
    thread.join(50)
    assert found == [True]
    assert not wait_in_folder(str(tmp_path), (tmp_path / "never").exists, 0.01)
    assert not wait_in_folder(str(tmp_path / "no folder"), name.is_dir, 0.01)


@pytest.mark.row("P-64")
def test_persist_knows_nothing_of_the_catalog() -> None:
    package = Path(persist.__file__).parent
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                if name.startswith("hermit"):
                    assert name.split(".")[:2] in (
                        ["hermit"],
                        ["hermit", "persist"],
                        ["hermit", "errors"],
                        ["hermit", "failpoints"],
                        ["hermit", "rows"],
                    ), (path, name)
