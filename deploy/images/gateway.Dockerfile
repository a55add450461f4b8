# The gateway: no torch, no compiler, no shell needed. Build it from the root of the tree:
#   docker buildx build -f deploy/images/gateway.Dockerfile --sbom=true --provenance=mode=max -t sekisho-gateway:local .
# pip's cache is a mount, in no layer:
# hadolint global ignore=DL3042
ARG PYTHON=python:3.13.14-slim-trixie@sha256:6771159cd4fa5d9bba1258caf0b82e6b73458c694d178ad97c5e925c2d0e1a91

FROM ${PYTHON} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_CACHE_DIR=/cache
WORKDIR /src
RUN python -m venv --without-pip /opt/sekisho && python -m venv /opt/sbom
COPY deploy/constraints/pins.txt pyproject.toml setup.py README.md LICENSE ./
COPY gateway gateway
COPY backends backends
COPY native_engine native_engine
COPY kernels kernels
# The native kernel is left out where there is no compiler, and here nothing would call it.
RUN --mount=type=cache,target=/cache \
    pip install --constraint pins.txt setuptools \
    && pip wheel --no-deps --no-build-isolation --wheel-dir /wheels . \
    && pip --python /opt/sekisho install --constraint pins.txt "$(echo /wheels/*.whl)[tracing]" \
    && /opt/sbom/bin/pip install cyclonedx-bom==7.5.0 \
    && /opt/sbom/bin/cyclonedx-py environment --output-reproducible --output-file /opt/sekisho/sbom.cdx.json /opt/sekisho

FROM ${PYTHON}
LABEL org.opencontainers.image.title="Sekisho gateway" org.opencontainers.image.licenses="Apache-2.0"
RUN useradd --uid 10001 --user-group --no-create-home --home-dir /tmp --shell /usr/sbin/nologin sekisho \
    && install -d -m 0700 -o 10001 -g 10001 /var/lib/sekisho
COPY --from=build /opt/sekisho /opt/sekisho
ENV PATH=/opt/sekisho/bin:$PATH PYTHONDONTWRITEBYTECODE=1 SEKISHO_DATA_DIR=/var/lib/sekisho
USER 10001:10001
WORKDIR /tmp
VOLUME /var/lib/sekisho
EXPOSE 8080 9464
# Whether it lives. Whether it may be sent requests is /readyz, for a load balancer.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["python", "-ISc", \
    "import http.client as h, sys; c = h.HTTPConnection('127.0.0.1', 8080, timeout=4); c.request('GET', '/healthz'); sys.exit(c.getresponse().status != 200)"]
ENTRYPOINT ["sekisho"]
CMD ["serve"]
