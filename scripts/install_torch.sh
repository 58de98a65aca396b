#!/bin/sh
# Install torch into a venv by itself, before the rest: its usual build for Linux brings gigabytes of CUDA.
#   sh scripts/install_torch.sh VENV
# TORCH_INDEX is a package index with CPU builds; TORCH=cuda takes CUDA without a GPU, too. A torch that is there stays:
# VENV/constraints.txt names its version, so that pip does not replace it by ours.
set -eu
venv=$1
SMALL="about 200 MB to download"
LARGE="2.7 GB to download, 4.9 GB on disk"

there() {
    "$venv/bin/python" -c 'from importlib.metadata import version; print(version("torch"))' 2>/dev/null
}

install() {
    "$venv/bin/python" -m pip install --disable-pip-version-check --constraint constraints.txt "$@" torch
}

has_gpu() {
    nvidia-smi -L >/dev/null 2>&1
}

from_index() {
    echo "installing torch from TORCH_INDEX (the CPU build: $SMALL)"
    install --quiet --no-deps --index-url "$TORCH_INDEX" --retries 0 --timeout 5 2>/dev/null && return
    echo "TORCH_INDEX=$TORCH_INDEX: it cannot be reached, or has no such torch for this Python; asking pip's own index"
    return 1
}

from_pip() {
    plan=$(install --dry-run)
    case $plan in
    *"Would install"*" nvidia-"*)
        [ "${TORCH:-}" = cuda ] || has_gpu || refuse
        echo "installing torch with CUDA ($LARGE)" ;;
    *)
        echo "installing torch ($SMALL)" ;;
    esac
    install --quiet
}

refuse() {
    echo "stopped before the download: pip would take torch with CUDA ($LARGE),"
    echo "but this machine has no NVIDIA GPU. Run it again with"
    echo "    TORCH_INDEX=URL   for the CPU build ($SMALL); URL is what torch's installation page,"
    echo "                      \"Get started\", gives pip as --index-url (choose Linux, Pip and CPU)"
    echo "    TORCH=cuda        for CUDA all the same"
    exit 2
} >&2

case ${TORCH:-} in
'' | cuda) ;;
*)
    echo "TORCH=$TORCH: it can only be cuda; leave it out for the CPU build" >&2
    exit 2 ;;
esac
if version=$(there); then
    echo "torch $version is there already"
elif [ -z "${TORCH_INDEX:-}" ] || ! from_index; then
    from_pip
fi
sed "s/^torch==.*/torch==$(there)/" constraints.txt >"$venv/constraints.txt"
