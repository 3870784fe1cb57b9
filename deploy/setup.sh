#!/usr/bin/env bash
# Installs what hone needs to build and run: Debian packages, and, where no CUDA toolkit is installed,
# NVRTC and the CUDA headers from PyPI. Runs again without doing anything twice.
#
# usage: deploy/setup.sh [--with-cuda12] [--with-wheel]
#   --with-cuda12   also NVRTC 12.9, for clients whose driver is of CUDA 12
#   --with-wheel    also what deploy/wheel.sh builds with
#   HONE_SYSTEM_CUDA=0   pass over installed toolkits
#   HONE_TOOLKIT_DIR     where wheels are unpacked (build/toolkit)
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

PACKAGES=(
  g++ cmake ninja-build ccache pkg-config git python3 clang-format
  libgrpc++-dev protobuf-compiler-grpc protobuf-compiler libprotobuf-dev libabsl-dev libnghttp2-dev
  libsqlite3-dev libssl-dev libspdlog-dev libtomlplusplus-dev libcli11-dev libboost-context-dev
  zlib1g-dev nlohmann-json3-dev
  libgtest-dev libgmock-dev libbenchmark-dev
)

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  else
    command -v sudo >/dev/null || fail "needs root to install packages: $*"
    sudo "$@"
  fi
}

is_installed() {
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# install_packages NAME...: only those that are missing; apt is not asked when nothing is.
install_packages() {
  local missing=() package
  for package in "$@"; do
    is_installed "$package" || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  say "installing ${missing[*]}"
  as_root apt-get update -q
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"
}

# fetch_wheels PINS: unpacks the pinned wheels into TOOLKIT_DIR, once for each content of PINS.
fetch_wheels() {
  local pins="$1" stamp python=python3 wheel
  stamp="$TOOLKIT_DIR/.$(basename "$pins").$(sha256sum "$pins" | cut -c1-16)"
  [ ! -f "$stamp" ] || return 0
  [ "$(uname -m)" = x86_64 ] || fail "the pinned CUDA wheels are for x86-64; install a CUDA toolkit"
  if ! python3 -m pip --version >/dev/null 2>&1; then
    install_packages python3-pip
    python=/usr/bin/python3
  fi
  say "fetching $(grep -c == "$pins") wheels of $(basename "$pins" .txt) from PyPI"
  mkdir -p "$TOOLKIT_DIR"
  WHEELS="$(mktemp -d)"
  "$python" -m pip download -q --no-deps --only-binary :all: --require-hashes -r "$pins" -d "$WHEELS"
  for wheel in "$WHEELS"/*.whl; do
    "$python" -m zipfile -e "$wheel" "$TOOLKIT_DIR"
  done
  rm -rf "$WHEELS"
  # What neither NVRTC nor a kernel's includes need.
  find "$TOOLKIT_DIR" \( -name '*.a' -o -name '*.alt.so*' -o -name ptxas \) -delete
  rm -rf "$TOOLKIT_DIR/nvidia/cuda_nvcc/nvvm"
  touch "$stamp"
}

WHEELS=
trap 'if [ -n "$WHEELS" ]; then rm -rf "$WHEELS"; fi' EXIT
WITH_CUDA12=0
WITH_WHEEL=0
for argument in "$@"; do
  case "$argument" in
    --with-cuda12) WITH_CUDA12=1 ;;
    --with-wheel) WITH_WHEEL=1 ;;
    -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
    *) fail "unknown argument '$argument'; try --help" ;;
  esac
done

if [ "$WITH_WHEEL" = 1 ]; then
  PACKAGES+=(python3-dev python3-numpy python3-setuptools python3-wheel dpkg-dev)
fi
if command -v dpkg-query >/dev/null; then
  install_packages "${PACKAGES[@]}"
else
  say "no dpkg here: the equivalents of these must be installed: ${PACKAGES[*]}"
fi
if ! toolkit_root >/dev/null; then
  fetch_wheels "$ROOT/deploy/cuda13.txt"
fi
if [ "$WITH_CUDA12" = 1 ]; then
  fetch_wheels "$ROOT/deploy/cuda12.txt"
fi
root="$(toolkit_root)" || fail "no CUDA toolkit found, and the wheels in $TOOLKIT_DIR are incomplete"
say "CUDA headers and NVRTC: $root"
