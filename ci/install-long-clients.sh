#!/bin/sh
# Creates target/long-clients, a virtual environment with numba and PyCUDA, which test the virtual
# GPU unmodified. PyCUDA is compiled with the headers of CUDA 13, without OpenGL and curand. Of the
# driver it needs a library to link with: an empty one, as the functions are found when it runs.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
home="$root/target/long-clients"
pip="$home/bin/python -m pip --quiet --disable-pip-version-check"
[ -x "$home/bin/python" ] || python3 -m venv "$home"
$pip install numba-cuda==0.30.4 numba==0.68.1 numpy==2.4.6 nvidia-cuda-runtime==13.5.37 \
    nvidia-cuda-nvrtc==13.5.37 nvidia-cuda-crt==13.5.37 nvidia-cuda-cccl==13.3.5.0.6 \
    nvidia-cuda-profiler-api==13.4.92 nvidia-nvvm==13.5.37 setuptools wheel
if ! "$home/bin/python" -c 'import importlib.metadata as m; m.version("pycuda")' 2>/dev/null; then
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    cuda=$(echo "$home"/lib/python3*/site-packages/nvidia/cu13)
    $pip download --no-deps --no-binary :all: --no-build-isolation --dest "$scratch" pycuda==2026.1
    tar -xzf "$scratch"/pycuda-*.tar.gz -C "$scratch"
    cc -shared -o "$scratch/libcuda.so" -Wl,-soname,libcuda.so.1 -x c /dev/null
    cat >"$scratch/siteconf" <<SITE
USE_SHIPPED_BOOST, CUDA_TRACE, CUDA_ENABLE_GL, CUDA_ENABLE_CURAND = True, False, False, False
BOOST_INC_DIR, BOOST_LIB_DIR, CUDART_LIB_DIR, CUDART_LIBNAME = [], [], [], []
CUDA_ROOT, CUDADRV_LIB_DIR, CUDADRV_LIBNAME = "$cuda", ["$scratch"], ["cuda"]
CUDA_INC_DIR = ["$cuda/include", "$cuda/include/cccl"]
SITE
    mv "$scratch/siteconf" "$(echo "$scratch"/pycuda-*/)siteconf.py"
    # The linker drops a library of which it needs nothing.
    LDFLAGS=-Wl,--no-as-needed $pip install --no-build-isolation "$(echo "$scratch"/pycuda-*/)"
fi
"$home/bin/python" -c 'import numba_cuda; print("client: numba-cuda", numba_cuda.__version__)'
