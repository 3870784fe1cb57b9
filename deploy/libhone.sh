#!/usr/bin/env bash
# Builds libhone.so with everything it uses linked into it but libc, libgcc and the CUDA driver, so that
# it loads into any process on any Linux since glibc 2.34: build/libhone/lib/libhone.so, with its header
# and the license texts of what is inside.
#
# Debian's static libraries are not made for shared ones (their thread-locals are addressed as an
# executable's), so Abseil, protobuf and nghttp2 are compiled once from Debian's own sources, of the
# versions that the rest of hone is built with.
#
# usage: deploy/libhone.sh
#   HONE_CLIENT_DEPS   where they are kept (build/client-deps)
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

DEPS="${HONE_CLIENT_DEPS:-$ROOT/build/client-deps}"
SOURCES=(abseil protobuf nghttp2)

# apt with lists of its own: the machine's need not name sources, and stay as they are.
sources_apt() {
  local apt="$DEPS/apt"
  mkdir -p "$apt/lists" "$apt/cache/archives/partial"
  cat >"$apt/sources.list" <<-END
	deb-src http://deb.debian.org/debian bookworm main
	deb-src http://deb.debian.org/debian-security bookworm-security main
	END
  apt-get -q -o Dir::Etc::sourcelist="$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null \
    -o Dir::State::lists="$apt/lists" -o Dir::Cache="$apt/cache" -o APT::Sandbox::User=root "$@"
}

# build NAME [cmake options...]: the static library in $DEPS.
build() {
  local name="$1" source
  shift
  source="$(echo "$DEPS/source/$name"-*/)"
  say "building $name"
  cmake -S "$source" -B "$DEPS/build/$name" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_INSTALL_PREFIX="$DEPS" -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_PREFIX_PATH="$DEPS" \
    -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DCMAKE_CXX_VISIBILITY_PRESET=hidden \
    -DCMAKE_VISIBILITY_INLINES_HIDDEN=ON -DCMAKE_C_VISIBILITY_PRESET=hidden \
    "$@" >"$DEPS/$name.log" 2>&1 &&
    ninja -C "$DEPS/build/$name" -j "$JOBS" install >>"$DEPS/$name.log" 2>&1 ||
    { tail -n 30 "$DEPS/$name.log" >&2; fail "building $name failed"; }
}

stamp="$DEPS/.$(sha256sum "${BASH_SOURCE[0]}" | cut -c1-16)"
if [ ! -f "$stamp" ]; then
  rm -rf "$DEPS"
  mkdir -p "$DEPS/source"
  say "fetching the sources of ${SOURCES[*]}"
  sources_apt update >/dev/null
  (cd "$DEPS/source" && sources_apt source "${SOURCES[@]}" >"$DEPS/fetch.log" 2>&1) ||
    { tail -n 20 "$DEPS/fetch.log" >&2; fail "fetching the sources failed"; }
  build abseil -DCMAKE_CXX_STANDARD=20 -DABSL_PROPAGATE_CXX_STD=ON -DBUILD_TESTING=OFF
  build protobuf -DCMAKE_CXX_STANDARD=17 -Dprotobuf_BUILD_TESTS=OFF -Dprotobuf_WITH_ZLIB=OFF \
    -Dprotobuf_BUILD_PROTOC_BINARIES=OFF
  build nghttp2 -DENABLE_LIB_ONLY=ON -DENABLE_STATIC_LIB=ON -DENABLE_SHARED_LIB=OFF
  mkdir -p "$DEPS/licenses"
  for source in "${SOURCES[@]}"; do
    cp "$DEPS/source/$source"-*/debian/copyright "$DEPS/licenses/$source.txt"
  done
  rm -rf "$DEPS/build" "$DEPS/source" "$DEPS/apt"
  touch "$stamp"
fi

OUT="$ROOT/build/libhone"
export PKG_CONFIG_PATH="$DEPS/lib/pkgconfig"
configure "$OUT" -DCMAKE_BUILD_TYPE=Release -DHONE_CLIENT_ONLY=ON -DCMAKE_PREFIX_PATH="$DEPS" \
  -DProtobuf_USE_STATIC_LIBS=ON -DProtobuf_INCLUDE_DIR="$DEPS/include" \
  -DProtobuf_LIBRARY="$DEPS/lib/libprotobuf.a" -DOPENSSL_USE_STATIC_LIBS=ON \
  -DBoost_USE_STATIC_LIBS=ON "${MERGED[@]}"
ninja -C "$OUT" -j "$JOBS" libhone
mkdir -p "$OUT/include/hone" "$OUT/licenses"
cp "$ROOT/client/c/hone.h" "$OUT/include/hone/"
cp "$DEPS/licenses/"* "$OUT/licenses/"
say "$OUT/lib/libhone.so ($(du -hL "$OUT/lib/libhone.so" | cut -f1)); include $OUT/include/hone/hone.h"
