"""MkDocs' hook: fills in what is generated, and keeps links to files of the repository honest.

Documents link to sources (`../include/...`), which the site does not hold. Such a link becomes plain text if
the file exists, and a warning, which ends a strict build, if it does not.
"""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

from hermit.handbook import pages

_LINK = re.compile(r"(?<!\!)\[(?P<text>[^\]]*)\]\((?P<target>[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")
_log = logging.getLogger("mkdocs.hooks.hermit")


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """Called by MkDocs for every page."""
    docs = Path(config["docs_dir"])
    source = docs / page.file.src_uri
    return _LINK.sub(lambda match: _link(match, source, docs), pages.fill(markdown, docs))


def _link(match: re.Match[str], source: Path, docs: Path) -> str:
    target = match["target"]
    if "://" in target or target.startswith(("/", "mailto:")):
        return match[0]
    path = (source.parent / target).resolve()
    if path.is_relative_to(docs.resolve()):
        return match[0] if not path.is_dir() else f"[{match['text']}]({target.rstrip('/')}/index.md)"
    if not path.exists():
        _log.warning("%s links to %s, which does not exist", source.relative_to(docs), target)
    return match["text"]
