# The native engine for CPUs (--target cpu) or NVIDIA GPUs (--target gpu). Build it from the root of the tree:
#   docker buildx build -f deploy/images/engine.Dockerfile --target cpu --sbom=true --provenance=mode=max -t sekisho-engine-cpu:local .
# pip's cache is a mount, in no layer:
# hadolint global ignore=DL3042
ARG PYTHON=python:3.13.14-slim-trixie@sha256:6771159cd4fa5d9bba1258caf0b82e6b73458c694d178ad97c5e925c2d0e1a91

FROM ${PYTHON} AS source
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_CACHE_DIR=/cache
WORKDIR /src
# hadolint ignore=DL3008  # versions of Debian's compiler leave its mirrors; what is built here does not hold them
RUN apt-get update && apt-get install --yes --no-install-recommends g++ && rm -rf /var/lib/apt/lists/* \
    && python -m venv --without-pip /opt/sekisho && python -m venv /opt/sbom
COPY deploy/constraints/pins.txt pyproject.toml setup.py README.md LICENSE ./
RUN --mount=type=cache,target=/cache \
    pip install --constraint pins.txt setuptools && /opt/sbom/bin/pip install cyclonedx-bom==7.5.0

# Torch before the sources: a changed line does not fetch gigabytes again.
FROM source AS build-cpu
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
RUN --mount=type=cache,target=/cache \
    pip --python /opt/sekisho install --constraint pins.txt --extra-index-url "${TORCH_INDEX}" torch
COPY gateway gateway
COPY backends backends
COPY native_engine native_engine
COPY kernels kernels
RUN --mount=type=cache,target=/cache \
    pip wheel --no-deps --no-build-isolation --wheel-dir /wheels . \
    && pip --python /opt/sekisho install --constraint pins.txt "$(echo /wheels/*.whl)[engine,tracing]" \
    && /opt/sbom/bin/cyclonedx-py environment --output-reproducible --output-file /opt/sekisho/sbom.cdx.json /opt/sekisho

FROM source AS build-gpu
RUN --mount=type=cache,target=/cache \
    pip --python /opt/sekisho install --constraint pins.txt torch triton
COPY gateway gateway
COPY backends backends
COPY native_engine native_engine
COPY kernels kernels
RUN --mount=type=cache,target=/cache \
    pip wheel --no-deps --no-build-isolation --wheel-dir /wheels . \
    && pip --python /opt/sekisho install --constraint pins.txt "$(echo /wheels/*.whl)[engine,gpu,tracing]" \
    && /opt/sbom/bin/cyclonedx-py environment --output-reproducible --output-file /opt/sekisho/sbom.cdx.json /opt/sekisho

FROM ${PYTHON} AS base
LABEL org.opencontainers.image.title="Sekisho engine" org.opencontainers.image.licenses="Apache-2.0"
RUN useradd --uid 10001 --user-group --no-create-home --home-dir /tmp --shell /usr/sbin/nologin sekisho \
    && install -d -m 0700 -o 10001 -g 10001 /var/lib/sekisho
ENV PATH=/opt/sekisho/bin:$PATH PYTHONDONTWRITEBYTECODE=1 SEKISHO_DATA_DIR=/var/lib/sekisho
WORKDIR /tmp
VOLUME /var/lib/sekisho
EXPOSE 8000
# 503 while the model is loading.
HEALTHCHECK --interval=10s --timeout=5s --start-period=600s CMD ["python", "-ISc", \
    "import http.client as h, sys; c = h.HTTPConnection('127.0.0.1', 8000, timeout=4); c.request('GET', '/health'); sys.exit(c.getresponse().status != 200)"]
ENTRYPOINT ["sekisho"]
# Whoever reaches it is trusted: let only gateways do so.
CMD ["engine", "--host", "0.0.0.0", "--port", "8000"]

FROM base AS gpu
# Triton compiles a few lines of C at its start.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
COPY --from=build-gpu /opt/sekisho /opt/sekisho
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER 10001:10001

FROM base AS cpu
COPY --from=build-cpu /opt/sekisho /opt/sekisho
USER 10001:10001
