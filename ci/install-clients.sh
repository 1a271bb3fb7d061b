#!/bin/sh
# Creates target/clients, a virtual environment with programs of others that use the driver's
# libraries; they test the virtual GPU unmodified.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
home="$root/target/clients"
[ -x "$home/bin/python" ] || python3 -m venv "$home"
"$home/bin/python" -m pip install --quiet --disable-pip-version-check \
    nvidia-ml-py==13.615.71 gpustat==1.1.1 nvitop==1.7.2 \
    cuda-bindings==13.0.3 cuda-core==1.2.2 nvidia-cuda-runtime-cu12==12.9.79 \
    nvidia-cuda-runtime==13.5.37 nvidia-cuda-nvrtc==13.5.37 numpy==2.4.6
"$home/bin/python" -c 'import pynvml; print("client: nvidia-ml-py", pynvml.__name__)'
