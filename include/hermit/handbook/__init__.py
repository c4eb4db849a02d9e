"""The parts of the documentation that are read from the code: diagrams, references, plots.

A page says `<!-- generated: NAME -->` and gets what `pages.py` has under that name when the site is built, so
that no table of commands or errors can be older than the code. Diagrams of the protocols and plots of the
benchmarks are committed as SVG, because the README and other readers of plain files show them, too.
"""
