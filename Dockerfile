# Airflow with firnline: its DAGs, plugin, Spark jobs and settings.
#
#   docker build -t firnline-airflow .
#
# BASE is an image of Airflow 3.1 to 3.4 with Python 3.11 to 3.14, whose packages stay as they are:
#
#   docker build -t firnline-airflow --build-arg BASE=apache/airflow:3.1.8-python3.12 .
#
# or an Astro Runtime. For `astro dev start` put these two lines in the place of the two below:
#
#   ARG BASE=astrocrpublic.azurecr.io/runtime:3.3-7-base
#   ARG RUN_AS=astro
#
# The command line alone, without Airflow, Spark and Java:
#
#   docker build -t firnline --target cli .
#   docker run --rm -e AWS_ACCESS_KEY_ID -e AWS_SECRET_ACCESS_KEY firnline health s3://bucket/t
#
ARG BASE=apache/airflow:3.3.2-python3.13
ARG RUN_AS=airflow

FROM ${BASE} AS wheel
ARG RUN_AS
WORKDIR /tmp/firnline
COPY --chown=${RUN_AS} pyproject.toml README.md LICENSE requirements.lock ./
COPY --chown=${RUN_AS} include/firnline include/firnline
# The build backend, too, is the one of the lock.
RUN pip wheel --no-cache-dir --no-deps --build-constraint requirements.lock --wheel-dir dist .

FROM python:3.13-slim AS cli
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
ARG RUN_AS

USER root
COPY packages.txt /tmp/packages.txt
RUN apt-get update \
    && xargs apt-get install -y --no-install-recommends < /tmp/packages.txt \
    && apt-get clean \
    && rm -rf /var/lib/apt/lists/* /tmp/packages.txt
USER ${RUN_AS}

COPY requirements.txt tools/image.py /tmp/
COPY --from=wheel /tmp/firnline/dist/ /tmp/dist/
# What the base has not, from the lock; and then the package.
RUN python /tmp/image.py /tmp/requirements.txt /tmp/dist/*.whl airflow spark spark-connect smoke \
    && pip install --no-cache-dir --no-deps --no-index /tmp/dist/*.whl
# Halves the start of every Spark job of this image.
RUN python -m firnline.spark.archive

COPY --chown=${RUN_AS} dags ${AIRFLOW_HOME}/dags
COPY --chown=${RUN_AS} plugins ${AIRFLOW_HOME}/plugins
COPY --chown=${RUN_AS} spark_jobs ${AIRFLOW_HOME}/spark_jobs
COPY --chown=${RUN_AS} include/tables.yaml ${AIRFLOW_HOME}/include/tables.yaml
ENV FIRNLINE_TABLES=${AIRFLOW_HOME}/include/tables.yaml
