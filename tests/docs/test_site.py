"""The handbook builds strictly, links to nothing that is not there, and speaks of the code as it is."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import uuid
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from hermit.formats.metrics import Size, StepReport, UpgradeReport
from hermit.handbook import commands, errors, pages
from hermit.stash.metrics import CollectionMetrics, prometheus

_ROOT = Path(__file__).resolve().parents[2]
_DOCS = _ROOT / "docs"
_SECTIONS = ["What it looks like", "Why", "What to do", "Afterwards"]
# Set by our own programs for each other, not by people.
_INTERNAL = {"HERMIT_ROOT", "HERMIT_SCREENSHOTS", "HERMIT_SERVICES", "HERMIT_JOB_STASH_URL"}
_RUNBOOK = sorted(path.stem for path in (_DOCS / "runbook").glob("*.md") if path.stem != "index")


class _Page(HTMLParser):
    """What a page of the site points to, loads, and can be pointed to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors.add(given.get("id", ""))
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag in ("link", "script", "img", "iframe"):
            self.loads.append(given.get("href") or given.get("src") or "")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> dict[str, _Page]:
    target = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [_ROOT / "hermit", "docs", "build", "--output", target], capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stdout + built.stderr
    assert "WARNING" not in built.stderr
    return {
        str(path.relative_to(target)): _Page(path.read_text() if path.suffix == ".html" else "")
        for path in target.rglob("*")
        if path.is_file()
    }


@pytest.mark.slow
def test_every_link_of_the_site_leads_somewhere(site: dict[str, _Page]) -> None:
    broken = []
    for name, page in site.items():
        for link in page.links:
            target, _, anchor = unquote(link).partition("#")
            if re.match(r"[a-z]+:", target):
                continue
            path = (
                str((Path("/") / Path(name).parent / target).resolve().relative_to("/")) if target else name
            )
            known = site.get(path)
            if known is None or (anchor and anchor not in known.anchors):
                broken.append(f"{name}: {link}")
    assert broken == []


@pytest.mark.slow
def test_the_site_loads_nothing_from_elsewhere(site: dict[str, _Page]) -> None:
    loads = [f"{name}: {url}" for name, page in site.items() for url in page.loads if "//" in url]
    assert loads == []


@pytest.mark.slow
def test_generated_references_are_whole(site: dict[str, _Page]) -> None:
    assert {f"hermit-{words.replace(' ', '-')}" for words in commands.tree()} - site[
        "reference/cli.html"
    ].anchors <= {
        f"hermit-{words.replace(' ', '-')}" for words in commands.tree() if words.startswith("catalog-debug")
    }
    decided = {path.with_suffix(".html").name for path in (_DOCS / "decisions").glob("*.md")}
    assert decided <= {*site["decisions/index.html"].links, "index.html"}
    assert {f"{stem}.html" for stem in _RUNBOOK} <= set(site["runbook/index.html"].links)


def test_links_of_the_readme_and_its_neighbours_lead_somewhere() -> None:
    for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"):
        text = (_ROOT / name).read_text()
        for target in re.findall(r"\]\(([^)#\s]+)", text):
            assert "://" in target or (_ROOT / target).exists(), f"{name}: {target}"


def test_drawings_are_those_of_the_tables_and_figures() -> None:
    for name, drawing in pages.drawings(_DOCS).items():
        assert (_DOCS / "images" / name).read_text() == drawing, f"{name} is old: run ./hermit docs draw"


def test_the_reference_of_errors_knows_every_error_of_the_code() -> None:
    bases: dict[str, set[str]] = {}
    for path in (_ROOT / "include" / "hermit").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                bases.setdefault(node.name, set()).update(
                    ast.unparse(base).split(".")[-1] for base in node.bases
                )
    ours = {"HermitError"}
    while more := {name for name, parents in bases.items() if parents & ours} - ours:
        ours |= more
    assert {kind.__name__ for kind in errors.tree()} == {name for name in ours if not name.startswith("_")}


def _room(kind: type) -> str:
    return kind.__module__.split(".")[1]


@pytest.mark.parametrize("stem", _RUNBOOK)
def test_a_page_of_the_runbook_answers_the_four_questions_about_errors_that_exist(stem: str) -> None:
    text = (_DOCS / "runbook" / f"{stem}.md").read_text()
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == _SECTIONS
    assert re.search(r"^    \S", text, re.MULTILINE), "no exact command"
    front = re.search(r"^errors: \[(.*)\]$", text, re.MULTILINE)
    assert front is not None
    kinds = errors.tree()
    known = {kind.__name__ for kind in kinds} | {f"{_room(kind)}.{kind.__name__}" for kind in kinds}
    assert set(filter(None, front[1].split(", "))) <= known


def test_errors_that_fail_a_task_for_good_have_a_page() -> None:
    paged = set(errors.runbook_pages(_DOCS))
    steps = [
        kind
        for kind in errors.tree()
        if kind.__module__ in ("hermit.migration.steps", "hermit.migration.protocol")
    ]
    assert {kind.__name__ for kind in steps} <= paged
    assert {
        "Fenced",
        "CorruptData",
        "Unavailable",
        "DiskFull",
        "FormatTooOld",
        "FormatFromTheFuture",
    } <= paged


def _quoted_commands() -> list[tuple[str, str]]:
    found = []
    for path in [*_DOCS.rglob("*.md"), _ROOT / "README.md", _ROOT / "CONTRIBUTING.md"]:
        if path.name != "conformance.md":
            text = path.read_text()
            quoted = re.findall(r"(?:^    |`|\$\()((?:\./)?hermit(?: [^`#\n]*)?)", text, re.MULTILINE)
            found += [(str(path.relative_to(_ROOT)), command.strip()) for command in quoted]
    return found


def test_every_command_that_a_page_quotes_exists_with_its_options() -> None:
    known = commands.tree()
    wrong = []
    for page, quoted in _quoted_commands():
        if quoted.startswith("./hermit test "):
            continue  # what it does not know itself goes to pytest
        words = shlex.split(re.split(r" [|>] |\)|…", quoted.replace("'", ""))[0])[1:]
        if not words or words[0].startswith("-") or words[0].isupper():
            continue
        command = known.get(" ".join(words[:2])) or known.get(words[0])
        options = [word.split("=")[0] for word in words if re.match(r"--?[a-z]", word)]
        if command is None or not set(options) <= _options(command):
            wrong.append(f"{page}: {quoted}")
    assert wrong == []


def _options(command: Any) -> set[str]:
    own = {name for param in command.params for name in (*param.opts, *param.secondary_opts)}
    return {*own, "--help", "-h"}


def test_every_param_of_the_dags_is_explained() -> None:
    tree = ast.parse((_ROOT / "plugins" / "hermit_airflow" / "dag_factory.py").read_text())
    function = next(
        node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "_params"
    )
    result = next(node.value for node in function.body if isinstance(node, ast.Return))
    assert isinstance(result, ast.Dict)
    names = {key.value for key in result.keys if isinstance(key, ast.Constant)}
    explained = set(re.findall(r"^\| `(\w+)`", (_DOCS / "reference" / "params.md").read_text(), re.MULTILINE))
    assert names <= explained


def test_every_variable_that_people_may_set_is_explained() -> None:
    sources = [_ROOT / "hermit", *(_ROOT / "include").rglob("*.py"), *(_ROOT / "plugins").rglob("*.py")]
    read = {
        name
        for path in sources
        for name in re.findall(r"[\"'{$]\{?(HERMIT_[A-Z_]+[A-Z])\b", path.read_text())
        if not name.startswith("HERMIT_TEST") and not name.endswith(("_DEFAULT", "_FAIL_POINT"))
    }
    explained = set(re.findall(r"HERMIT_\w+", (_DOCS / "reference" / "settings.md").read_text()))
    assert read - _INTERNAL <= explained


def test_every_gauge_is_explained() -> None:
    step = StepReport(20, {"items": Size(1, 2)}, {"items": Size(1, 2)})
    given = prometheus(uuid.uuid4(), [CollectionMetrics("items", 1, 1, 2)])
    given += UpgradeReport(20, 21, (step,)).to_prometheus()
    explained = (_DOCS / "reference" / "metrics.md").read_text()
    assert all(f"`{name}`" in explained for name in re.findall(r"^# TYPE (\w+)", given, re.MULTILINE))
