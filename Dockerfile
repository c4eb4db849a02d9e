# Airflow, Celery and Spark in one image, so that drivers and executors hold the same code and the same packages.
# deploy/requirements.txt is requirements.txt without what only tests and docs need.
FROM python:3.11.14-slim-bookworm AS build
WORKDIR /src
COPY requirements.txt ./
RUN sed -n '/^setuptools==/,/^    # via/p' requirements.txt >build.txt \
    && pip install --no-cache-dir --disable-pip-version-check --require-hashes -r build.txt
COPY pyproject.toml setup.py README.md LICENSE ./
COPY include include
COPY plugins plugins
COPY spark_jobs spark_jobs
RUN pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheels .

FROM python:3.11.14-slim-bookworm
RUN apt-get update \
    && apt-get install -y --no-install-recommends curl openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/*
COPY deploy/requirements.txt /tmp/requirements.txt
RUN pip install --no-cache-dir --disable-pip-version-check --require-hashes -r /tmp/requirements.txt
COPY --from=build /wheels /tmp/wheels
RUN pip install --no-cache-dir --disable-pip-version-check --no-deps /tmp/wheels/*.whl && rm -r /tmp/wheels
COPY dags /opt/hermit/dags
COPY deploy/spark /opt/hermit/deploy/spark
# A volume that is new takes over the owner of the directory that it is mounted on.
RUN useradd --uid 50000 --create-home hermit \
    && install -d -o hermit -g hermit /opt/airflow /opt/airflow/logs /srv/shards
ENV SPARK_HOME=/usr/local/lib/python3.11/site-packages/pyspark \
    PYSPARK_PYTHON=/usr/local/bin/python \
    AIRFLOW_HOME=/opt/airflow
ENV PATH="$SPARK_HOME/bin:$PATH"
USER hermit
WORKDIR /opt/airflow
