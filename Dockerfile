# The explorer in a container, with all that `make explore` needs.
#
#   docker build -t explorer .
#   docker run --rm -it --network host explorer
#   docker run --rm -it --network host -v "$PWD/models:/models" explorer \
#       make explore MODEL=/models/net.onnx ARGS=--no-browser
#
# The explorer serves its own machine only, hence the host's network; the address is printed.

# What scripts/setup.sh installs on Debian. `.devcontainer/` ends here: its folder is the clone.
FROM debian:bookworm-slim AS system
RUN apt-get update \
    && apt-get install --yes --no-install-recommends \
        ca-certificates gcc git graphviz libc6-dev make pocl-opencl-icd python3 python3-venv \
    && rm -rf /var/lib/apt/lists/*
ENV LANG=C.UTF-8

FROM system
WORKDIR /explorer
COPY . .
RUN make setup SYSTEM_PACKAGES=no
CMD ["make", "explore", "ARGS=--no-browser"]
