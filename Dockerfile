# For pods and containers: docker build -t palimpsest . && docker run palimpsest --help
FROM python:3.11-slim
RUN apt-get update && apt-get install --yes --no-install-recommends make git \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /palimpsest
COPY . .
# ACCELERATOR: tpu or cuda13; empty for a CPU.
ARG ACCELERATOR=""
RUN make env && if [ -n "$ACCELERATOR" ]; then .venv/bin/uv pip install \
    --python .venv/bin/python --constraint requirements.txt "jax[$ACCELERATOR]"; fi
ENV PATH=/palimpsest/.venv/bin:$PATH
ENTRYPOINT ["palimpsest"]
