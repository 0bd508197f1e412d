# docker build -t sentattn .
# docker run --rm -v "$PWD/outputs:/app/outputs" sentattn train logger=none
#
# TORCH and PIP_EXTRA_INDEX_URL select the build of torch. For CUDA:
#   docker build -t sentattn --build-arg TORCH=torch==2.13.0+cu130 --build-arg PIP_EXTRA_INDEX_URL=INDEX .
#   docker run --rm --gpus all -v "$PWD/outputs:/app/outputs" sentattn train data=imdb
ARG PYTHON=3.13
FROM python:${PYTHON}-slim-bookworm
ARG TORCH=torch
ARG PIP_EXTRA_INDEX_URL
ARG EXTRAS=report,insight,explore,onnx,pretrained,hub,pandas,sklearn
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
COPY constraints.txt /tmp/constraints.txt
RUN pip install -c /tmp/constraints.txt "${TORCH}"
COPY . /src
RUN pip install -c /tmp/constraints.txt "/src[${EXTRAS}]" && rm -r /src
RUN useradd --create-home --uid 1000 sentattn && mkdir -p /app/outputs && chown -R sentattn /app
USER sentattn
WORKDIR /app
ENV SENTATTN_CACHE=/app/cache
ENTRYPOINT ["sentattn"]
CMD ["--help"]
