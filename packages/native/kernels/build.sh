#!/usr/bin/env bash
# Builds the kernels of all platforms into prebuilt/, the same bytes from the same sources and compiler, and writes
# their digests. Needs Zig 0.17.1, which has Clang and links for every platform: pip install ziglang==0.17.1, or ZIG.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/src"

read -ra zig <<<"${ZIG:-python3 -m ziglang}"
[ "$("${zig[@]}" version)" = 0.17.1 ] || { echo 'Zig 0.17.1 is needed: pip install ziglang==0.17.1' >&2; exit 1; }
build="$(mktemp -d)"
trap 'rm -rf "$build"' EXIT

flags=(-O3 -g0 -std=c17 -fno-sanitize=all -fno-math-errno -fvisibility=hidden -fPIC -Wall -Wextra -Werror)

# library NAME TARGET SET=FLAG,FLAG...: one file with the kernels of each instruction set.
library() {
  local name=$1 target=$2 objects=()
  shift 2
  for set in "$@"; do
    local more=()
    IFS=, read -ra more <<<"${set#*=}"
    for source in attention deltas products; do
      "${zig[@]}" cc "${flags[@]}" -target "$target" "${more[@]}" -DINSTRUCTIONS="${set%%=*}" -c $source.c \
        -o "$build/$source-${set%%=*}.o"
      objects+=("$build/$source-${set%%=*}.o")
    done
  done
  for source in packing processor; do
    "${zig[@]}" cc "${flags[@]}" -target "$target" -c $source.c -o "$build/$source.o"
  done
  local link=(-shared -s)
  case $name in *.dylib) link+=(-install_name "@rpath/$name") ;; esac
  "${zig[@]}" cc -target "$target" "${link[@]}" -o "$build/$name" "${objects[@]}" "$build/packing.o" "$build/processor.o"
  mv "$build/$name" ../prebuilt/
}

# Without the width, Clang would split vectors of 64 bytes for AVX-512.
x64=(avx2=-mcpu=x86_64_v3 avx512=-mcpu=x86_64_v4,-mprefer-vector-width=512)
library linux-x64.so x86_64-linux-gnu.2.17 "${x64[@]}"
library linux-arm64.so aarch64-linux-gnu.2.17 neon=-mcpu=generic
library darwin-arm64.dylib aarch64-macos.11.0 neon=-mcpu=apple_m1

cd ../prebuilt
if strings -a ./* | grep -nE "$HOME|$build"; then
  echo 'a path of this machine is inside' >&2
  exit 1
fi
sha256sum -- *.so *.dylib | tee SHA256SUMS
