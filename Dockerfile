# Airflow with firnline: its DAGs, plugin, Spark jobs and settings.
#
#   docker build -t firnline-airflow .
#   docker build -t firnline-airflow --build-arg BASE=<an Astro runtime of Airflow 3.3> \
#                --build-arg RUN_AS=astro .
#
# The command line alone, without Airflow, Spark and Java:
#
#   docker build -t firnline --target cli .
#   docker run --rm -e AWS_ACCESS_KEY_ID -e AWS_SECRET_ACCESS_KEY firnline health s3://bucket/t
#
# BASE has to run Python 3.11 or 3.12, which the lock is made for.
ARG BASE=apache/airflow:3.3.2-python3.11

FROM ${BASE} AS wheel
ARG RUN_AS=airflow
WORKDIR /tmp/firnline
COPY --chown=${RUN_AS} pyproject.toml README.md LICENSE requirements.lock ./
COPY --chown=${RUN_AS} include/firnline include/firnline
# The build backend, too, is the one of the lock.
RUN pip wheel --no-cache-dir --no-deps --build-constraint requirements.lock --wheel-dir dist .

FROM python:3.11-slim AS cli
COPY requirements.lock /tmp/requirements.lock
COPY --from=wheel /tmp/firnline/dist/ /tmp/dist/
# uv takes the lock as bounds of what the wheel requires; pip would install all of it.
RUN pip install --no-cache-dir uv==0.13.8 \
    && uv pip install --system --no-cache --constraint /tmp/requirements.lock /tmp/dist/*.whl \
    && pip uninstall -y uv \
    && rm -rf /tmp/dist /tmp/requirements.lock \
    && useradd --create-home firnline
USER firnline
WORKDIR /home/firnline
ENTRYPOINT ["firnline"]
CMD ["--help"]

FROM ${BASE}
ARG RUN_AS=airflow

USER root
COPY packages.txt /tmp/packages.txt
RUN apt-get update \
    && xargs apt-get install -y --no-install-recommends < /tmp/packages.txt \
    && apt-get clean \
    && rm -rf /var/lib/apt/lists/* /tmp/packages.txt
USER ${RUN_AS}

COPY requirements.txt /tmp/requirements.txt
# pyspark-client, where the base image has it, overwrites files of pyspark: see pyproject.toml.
RUN pip uninstall -y pyspark-client \
    && pip install --no-cache-dir --no-deps --require-hashes -r /tmp/requirements.txt
COPY --from=wheel /tmp/firnline/dist/ /tmp/dist/
RUN pip install --no-cache-dir --no-deps --no-index /tmp/dist/*.whl
# Halves the start of every Spark job of this image.
RUN python -m firnline.spark.archive

COPY --chown=${RUN_AS} dags ${AIRFLOW_HOME}/dags
COPY --chown=${RUN_AS} plugins ${AIRFLOW_HOME}/plugins
COPY --chown=${RUN_AS} spark_jobs ${AIRFLOW_HOME}/spark_jobs
COPY --chown=${RUN_AS} include/tables.yaml ${AIRFLOW_HOME}/include/tables.yaml
ENV FIRNLINE_TABLES=${AIRFLOW_HOME}/include/tables.yaml
