# Airflow and Spark in one image, from the same pinned packages as everywhere else.
FROM python:3.11-slim-bookworm
RUN apt-get update && apt-get install -y --no-install-recommends openjdk-17-jre-headless curl procps \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/hermit
COPY requirements.txt pyproject.toml README.md ./
RUN pip install --no-cache-dir --require-hashes -r requirements.txt
COPY include include
COPY plugins plugins
COPY dags dags
COPY spark_jobs spark_jobs
RUN pip install --no-cache-dir --no-deps --no-build-isolation --editable .
ENV SPARK_HOME=/usr/local/lib/python3.11/site-packages/pyspark PYSPARK_PYTHON=python
ENV PATH="$SPARK_HOME/bin:$PATH"
