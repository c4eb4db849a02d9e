"""`python -m hermit.cli`: where the launcher hands over."""

from __future__ import annotations


def main() -> None:
    """Run the command line."""
    from hermit.cli.app import run

    run()


def debug_main() -> None:
    """Run `catalog-debug`, which is `hermit debug`."""
    import sys

    sys.argv.insert(1, "debug")
    main()


if __name__ == "__main__":
    main()
