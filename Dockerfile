# One image for CPU and GPU. Build: docker build -t pan_scdg .
#
# BASE_IMAGE       any image with Python 3.10 to 3.12 and pip. The plain default serves GPUs too: torch's wheel brings the CUDA
#                  libraries along.
#                  `make pin-base-image` asks the registry for the newest image of the default's tag and writes its digest below.
# TORCH_INDEX_URL  another index of torch's wheels. The default ones are for CUDA 13.0 and need driver 580 or newer; those for CUDA 12.6
#                  need 525 (docker build --build-arg TORCH_INDEX_URL=URL-OF-CU126 -t pan_scdg .). With CPU wheels the image has a
#                  third of the size and no GPU support.
# TRANSFORMERS     5 installs transformers 5, which the profile pan25-ministral-3-8b needs.
# MODELS           what is baked in, with spaces or commas between: scdg-mini, and NAME or NAME@REVISION for each model that is
#                  fetched, as by `models fetch`.
# HF_ENDPOINT      another hub, such as a mirror.
# REVISION         the commit, which every result names: --build-arg REVISION="$(git describe --always --dirty --abbrev=40)". `pan-scdg tira`
#                  gives it.
#
# There is no argument for a token, which would stay in the image, and no secret mount, which the classic builder does not know:
# what needs one is fetched into model_cache/image before the build. What is there is baked in, too.
ARG BASE_IMAGE=python:3.11-slim@sha256:9c900dea9e8fb7e16277c179b555cc72d29a352dbc33cff48ad5a0412fd5bfc7

FROM ${BASE_IMAGE} AS packages
COPY requirements.lock requirements/transformers5.lock /tmp/
ARG TORCH_INDEX_URL=""
ARG TRANSFORMERS=4
# In one layer, without what only the tests need. Every file has the digest that the locks name; wheels from TORCH_INDEX_URL alone have
# whatever is there. flash-attn, which compiles for hours, is left to those who install it: varlen is flash attention within torch.
RUN cd /tmp \
    && flags="--no-deps --no-build-isolation --require-hashes -r" \
    && sed '/^# \[run\]/,$d' requirements.lock > part.lock && pip install --no-cache-dir --no-compile $flags part.lock \
    && index="$(pip config list | sed -n "s/^[^ ]*\.index-url='\(.*\)'$/\1/p" | tail -n 1)" \
    && if [ -n "$index" ]; then export UV_DEFAULT_INDEX="$index"; fi \
    && install="uv pip install --system --system-certs --no-cache $flags" \
    && if [ -n "$TORCH_INDEX_URL" ]; then \
        sed '/^# \[torch\]/,$d' requirements.lock > part.lock && $install part.lock \
        && pip install --no-cache-dir --no-compile --index-url "$TORCH_INDEX_URL" "$(grep -oE '^torch==[0-9.]+' requirements.lock)"; \
    else \
        sed '/^# \[tests\]/,$d' requirements.lock > part.lock && $install part.lock; \
    fi \
    && case "$TRANSFORMERS" in \
        4) ;; \
        5) $install transformers5.lock ;; \
        *) echo "TRANSFORMERS is 4 or 5, not $TRANSFORMERS" >&2; exit 1 ;; \
    esac

# Models are fetched by the few modules that this takes: a change elsewhere in the code fetches nothing again.
FROM packages AS models
WORKDIR /app
COPY pan_scdg/__init__.py pan_scdg/version.py pan_scdg/bundled.py pan_scdg/errors.py pan_scdg/
COPY pan_scdg/models/__init__.py pan_scdg/models/catalogue.py pan_scdg/models/fetch.py pan_scdg/models/
ARG HF_ENDPOINT
ARG MODELS="scdg-mini"
RUN mkdir model_cache && python -m pan_scdg.models.fetch "$MODELS"
COPY model_cache/scdg-mini scdg-mini
RUN for model in $(echo "$MODELS" | tr , " "); do if [ "$model" = scdg-mini ]; then mv scdg-mini model_cache/; fi; done

FROM packages
WORKDIR /app
# The image may run with a read-only root: what commands import is compiled now, not all 270 MB of sources.
RUN python -c "import click, ir_measures, jinja2, lxml.etree, numba, pydantic.json_schema, tomlkit, \
    scipy.stats, sentence_transformers.models, sklearn.linear_model, \
    ray.autoscaler._private.monitor, ray.dashboard.agent, ray.dashboard.dashboard, \
    ray._private.log_monitor, ray._private.runtime_env.agent.main, ray.util.scheduling_strategies, \
    transformers.models.bert.modeling_bert, \
    transformers.models.llama.modeling_llama, transformers.models.mistral.modeling_mistral, \
    transformers.models.qwen2.modeling_qwen2, transformers.models.qwen3.modeling_qwen3; \
    from transformers import BertTokenizerFast"
ENV HF_HUB_OFFLINE=1 \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility
COPY NOTICE.md model_cache/imag[e] model_cache/
COPY --from=models /app/model_cache model_cache
COPY model_cache/reuse-minilm model_cache/reuse-minilm
COPY examples examples
COPY README.md LICENSE NOTICE.md CITATION.cff tira.yml entrypoint.py entrypoint.sh ./
COPY pan_scdg pan_scdg
RUN python -m compileall -q pan_scdg entrypoint.py
ARG REVISION=""
RUN if [ -n "$REVISION" ]; then echo "$REVISION" > pan_scdg/COMMIT; \
    else echo "warning: without --build-arg REVISION=COMMIT, results of this image cannot name the commit" >&2; fi
LABEL org.opencontainers.image.title="pan_scdg" \
    org.opencontainers.image.description="Which sources was a suspicious document written from? SCDG for PAN 2025 and 2026" \
    org.opencontainers.image.licenses="MIT" \
    org.opencontainers.image.revision="${REVISION:-unknown}"
# No USER: under TIRA another one can neither write the output nor read the models, which are mounted below /root. Elsewhere
# `--user` takes any other.
ENTRYPOINT ["sh", "/app/entrypoint.sh"]
