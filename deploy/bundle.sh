#!/usr/bin/env bash
# Makes build/hone-VERSION-x86_64.tar.gz: honed, hone, hone-worker, the libraries they need besides
# glibc, and kernels/. It runs from any directory on x86-64 hosts whose glibc is as new as this one's.
#
# usage: deploy/bundle.sh [--with-nvrtc] [--output FILE]
#   --with-nvrtc   add NVRTC and the CUDA headers from PyPI; without them the bundle uses those of the
#                  host
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

WITH_NVRTC=0
OUTPUT=
while [ $# -gt 0 ]; do
  case "$1" in
    --with-nvrtc) WITH_NVRTC=1 ;;
    --output) shift; OUTPUT="${1:?--output needs a file}" ;;
    -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
    *) fail "unknown argument '$1'; try --help" ;;
  esac
  shift
done

PROGRAMS=(honed hone hone-worker)
BUILD="$ROOT/build/release"
VERSION="$(sed -n 's/^project(hone VERSION \([0-9.]*\).*/\1/p' "$ROOT/CMakeLists.txt")"
NAME="hone-$VERSION-$(uname -m)"
STAGE="$ROOT/build/bundle/$NAME"
OUTPUT="${OUTPUT:-$ROOT/build/$NAME.tar.gz}"

# Libraries of `$1` that do not belong to glibc, as paths.
foreign_libraries() {
  ldd "$1" | sed -n 's/.* => \(\/[^ ]*\).*/\1/p' |
    grep -v -E '/(ld-linux[^/]*|lib(c|m|mvec|pthread|dl|rt|resolv|anl|util|nsl)\.so[^/]*)$'
}

"$ROOT/deploy/setup.sh"
configure_release "$BUILD"
ninja -C "$BUILD" -j "$JOBS" "${PROGRAMS[@]}"

rm -rf "$STAGE"
mkdir -p "$STAGE/bin" "$STAGE/lib"
for program in "${PROGRAMS[@]}"; do
  install -m 755 "$BUILD/bin/$program" "$STAGE/bin/"
  foreign_libraries "$BUILD/bin/$program" | while read -r library; do
    # Under the name the programs ask for, links followed.
    install -m 644 "$library" "$STAGE/lib/$(basename "$library")"
  done
done
strip --strip-unneeded "$STAGE"/bin/* "$STAGE"/lib/*
cp -r "$ROOT/kernels" "$STAGE/kernels"
cp "$ROOT/README.md" "$STAGE/"

if [ "$WITH_NVRTC" = 1 ]; then
  # Always the pinned ones, whatever is installed here, so that equal bundles compile equally.
  wheels="$ROOT/build/bundle/toolkit"
  HONE_SYSTEM_CUDA=0 HONE_TOOLKIT_DIR="$wheels" "$ROOT/deploy/setup.sh"
  nvidia="$STAGE/lib/nvidia/cu13"
  mkdir -p "$nvidia/lib" "$STAGE/include"
  cp "$wheels"/nvidia/cu13/lib/libnvrtc*.so.* "$nvidia/lib/"
  cp -r "$wheels/nvidia/cu13/include" "$nvidia/"
  ln -s ../lib/nvidia/cu13/include "$STAGE/include/cuda"
else
  cat >"$STAGE/lib/README" <<'TEXT'
NVRTC is not in this bundle. honed finds the one of an installed CUDA toolkit (12 or 13), or NVIDIA's
wheels unpacked here:
  pip install --target . nvidia-cuda-nvrtc==13.0.88 nvidia-cuda-runtime==13.0.96 \
    nvidia-cuda-crt==13.0.88 nvidia-cuda-cccl==13.0.85
Kernels that are in the cache already are served without it.
TEXT
fi

# Every library must come from the bundle or from glibc.
for program in "${PROGRAMS[@]}"; do
  "$STAGE/bin/$program" --help >/dev/null 2>&1 || [ "$program" = hone-worker ] ||
    fail "$program does not start from $STAGE"
  if foreign_libraries "$STAGE/bin/$program" | grep -v "^$STAGE/"; then
    fail "$program takes the libraries above from this machine"
  fi
done
tar -C "$(dirname "$STAGE")" --owner=0 --group=0 --sort=name -czf "$OUTPUT" "$NAME"
say "$OUTPUT ($(du -h --apparent-size "$OUTPUT" | cut -f1)); unpack anywhere and run $NAME/bin/honed"
