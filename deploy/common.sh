# shellcheck shell=bash
# What the scripts of deploy/ share. Sourced, not run.

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
# Pinned CUDA wheels are unpacked here; build trees link to it.
TOOLKIT_DIR="${HONE_TOOLKIT_DIR:-$ROOT/build/toolkit}"
JOBS="${JOBS:-$(nproc)}"

say() { printf '%s\n' "$*"; }
fail() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

# A directory is a CUDA toolkit for us when it has NVRTC and the headers that kernels include.
is_toolkit() {
  local header lib
  for header in cuda.h nvrtc.h cuda_fp16.h; do
    [ -f "$1/include/$header" ] || return 1
  done
  for lib in lib64 lib targets/x86_64-linux/lib; do
    if compgen -G "$1/$lib/libnvrtc.so.1[2-9]*" >/dev/null; then return 0; fi
  done
  return 1
}

# The root of the CUDA toolkit to build and compile with: an installed one, else the pinned wheels.
# HONE_SYSTEM_CUDA=0 passes over installed ones.
toolkit_root() {
  local root
  if [ "${HONE_SYSTEM_CUDA:-1}" != 0 ]; then
    for root in "${CUDA_HOME:-}" "${CUDA_PATH:-}" /usr/local/cuda /usr/local/cuda-1[2-9]*; do
      if [ -n "$root" ] && is_toolkit "$root"; then
        say "$root"
        return 0
      fi
    done
  fi
  if is_toolkit "$TOOLKIT_DIR/nvidia/cu13"; then
    say "$TOOLKIT_DIR/nvidia/cu13"
    return 0
  fi
  return 1
}

# configure DIR [cmake options...]: a build tree whose programs find the pinned wheels, when there are
# any, in ../lib.
configure() {
  local dir="$1" root
  shift
  root="$(toolkit_root)" || fail "no CUDA headers; run deploy/setup.sh first"
  mkdir -p "$dir/lib"
  if [ -d "$TOOLKIT_DIR/nvidia" ]; then
    ln -sfn "$TOOLKIT_DIR/nvidia" "$dir/lib/nvidia"
  fi
  cmake -S "$ROOT" -B "$dir" -G Ninja -DHONE_CUDA_INCLUDE_DIR="$root/include" "$@" >"$dir/configure.log" ||
    { cat "$dir/configure.log" >&2; fail "configuring $dir failed"; }
}

# Merges sources, which halves the time of a build from nothing.
MERGED=(-DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=12)

# The tree that quickstart, test and bundle share. Release; DT_RPATH, which unlike RUNPATH also holds
# for the libraries of libraries, so that a bundle's bin/ finds everything in its lib/.
# HONE_CMAKE_OPTIONS adds to the options.
configure_release() {
  # shellcheck disable=SC2086
  configure "$1" -DCMAKE_BUILD_TYPE=Release '-DCMAKE_CXX_FLAGS_RELEASE=-O2 -DNDEBUG' "${MERGED[@]}" \
    '-DCMAKE_BUILD_RPATH=$ORIGIN/../lib' -DCMAKE_EXE_LINKER_FLAGS=-Wl,--disable-new-dtags ${HONE_CMAKE_OPTIONS:-}
}
