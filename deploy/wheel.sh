#!/usr/bin/env bash
# Makes build/wheel/hone_client-VERSION-cp39-abi3-manylinux_2_34_x86_64.whl: the Python package with a
# libhone of its own, for every CPython from 3.9 on, and shows that it asks for no symbol of a glibc
# above 2.34 and for no C++ runtime.
#
# usage: deploy/wheel.sh
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

case "${1:-}" in
  -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
esac

GLIBC_MAX=2.34
OUT="$ROOT/build/wheel"
"$ROOT/deploy/setup.sh" --with-wheel
"$ROOT/deploy/libhone.sh"

rm -rf "$OUT"
mkdir -p "$OUT"
cp -r "$ROOT/client/python" "$OUT/source"
HONE_VERSION="$(sed -n 's/^project(hone VERSION \([0-9.]*\).*/\1/p' "$ROOT/CMakeLists.txt")"
export HONE_VERSION HONE_LIBHONE="$ROOT/build/libhone"
(cd "$OUT/source" && /usr/bin/python3 setup.py -q bdist_wheel --dist-dir "$OUT" \
  --plat-name "manylinux_${GLIBC_MAX/./_}_$(uname -m)") >"$OUT/build.log" 2>&1 ||
  { tail -n 30 "$OUT/build.log" >&2; fail "building the wheel failed"; }
WHEEL="$(echo "$OUT"/*.whl)"

# What is promised, checked on what was built.
rm -rf "$OUT/unpacked"
/usr/bin/python3 -m zipfile -e "$WHEEL" "$OUT/unpacked"
for library in "$OUT"/unpacked/hone_client/*.so*; do
  needed="$(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')"
  if echo "$needed" | grep -q -v -E '^(libc|libm|libdl|libpthread|librt|libgcc_s|ld-linux-x86-64|libhone)\.so'; then
    fail "$(basename "$library") needs more than libc: $(echo $needed)"
  fi
  newest="$(objdump -T "$library" | grep -o 'GLIBC_[0-9.]*' | cut -d_ -f2 | sort -uV | tail -1)"
  if [ "$(printf '%s\n' "$newest" "$GLIBC_MAX" | sort -V | tail -1)" != "$GLIBC_MAX" ]; then
    fail "$(basename "$library") needs glibc $newest; at most $GLIBC_MAX was promised"
  fi
  say "$(basename "$library"): glibc $newest, needs $(echo $needed)"
done
shown="$(nm -D --defined-only "$OUT/unpacked/hone_client/libhone.so.1" | awk '{print $3}' | grep -v '^hone_' || true)"
[ -z "$shown" ] || fail "libhone.so.1 shows more than its C ABI: $shown"
say "$WHEEL ($(du -h "$WHEEL" | cut -f1))"
