"""The page "Catalogs" in Airflow's UI: what every catalog is doing, and the buttons that start a move.

`app.py` has the routes and nothing else; who may use them is in `access.py`. What they answer is put
together in `catalogs.py` and `detail.py`, from the stores (`places.py`, `shards.py`, `contents.py`), the
protocols' tables (`diagram.py`, `forecast.py`) and Airflow's own records (`runs.py`). `actions.py` decides
which buttons work and why the others do not. The front end is plain files in `static/`: nothing to build.
"""
