#!/bin/sh
# Creates target/cuda-wheels: the compilers for `gpubench-ci ptx`, from Python wheels.
#
# NVRTC 11.8 makes the checked-in PTX: `.version 7.8` loads from driver branch R520 on.
# ptxas assembles it twice: 13.5 supports the newest targets, 11.8 is that of the oldest drivers.
# nvdisasm prints the instructions of a kernel, of which a check counts some.
# No toolkit and no GPU is needed; the wheels are about 95 MB, fetched once.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
home="$root/target/cuda-wheels"

# One folder per wheel: two versions of ptxas cannot share one.
install() {
    folder="$home/$1"
    wheel=$2
    if [ "$(cat "$folder/installed" 2>/dev/null || true)" = "$wheel" ]; then
        return
    fi
    rm -rf "$folder"
    python3 -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: \
        --no-compile --root-user-action=ignore --target "$folder" "$wheel"
    # Written last, so that an interrupted installation is repeated.
    printf '%s\n' "$wheel" >"$folder/installed"
}

install nvrtc nvidia-cuda-nvrtc-cu11==11.8.89
install ptxas-oldest nvidia-cuda-nvcc-cu11==11.8.89
install ptxas-newest nvidia-cuda-nvcc==13.5.37
install nvdisasm nvidia-cuda-nvdisasm==13.5.37
for program in "$home"/ptxas-*/nvidia/*/bin/ptxas; do
    printf 'ptxas: %s\n' "$("$program" --version | tail -n 1)"
done
