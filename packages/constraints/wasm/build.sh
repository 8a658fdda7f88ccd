#!/usr/bin/env bash
# Builds llguidance.wasm beside this script, the same bytes from the same sources and compiler, and writes its digest.
# Needs rustup with the toolchain named below; takes a few minutes on one core. Nothing else in the repository needs Rust.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

toolchain=1.95.0
target=wasm32-wasip1
build="${CARGO_TARGET_DIR:-$(mktemp -d)}"

rustup target add --toolchain "$toolchain" "$target"

# The shadow stack is large because the compilers of schemas and grammars recurse; the largest memory is 1 GiB, so that
# no constraint takes the machine's. The remaps keep the paths of the machine that built it out of the file.
flags=(
  -C link-arg=-zstack-size=8388608
  -C link-arg=--max-memory=1073741824
  -C target-feature=+simd128,+bulk-memory
  --remap-path-prefix="$PWD"=/constraints
  --remap-path-prefix="${CARGO_HOME:-$HOME/.cargo}"=/cargo
  --remap-path-prefix="$(rustc "+$toolchain" --print sysroot)"=/rust
  --remap-path-prefix="$build"=/build
)
CARGO_ENCODED_RUSTFLAGS="$(IFS=$'\x1f'; echo "${flags[*]}")" CARGO_TARGET_DIR="$build" \
  nice -n 10 cargo "+$toolchain" build --locked --release --jobs 1 --target "$target"

cp "$build/$target/release/trainyard_constraints.wasm" llguidance.wasm
if strings llguidance.wasm | grep -nE "$HOME|$PWD"; then
  echo 'a path of this machine is inside' >&2
  exit 1
fi
sha256sum llguidance.wasm | tee llguidance.wasm.sha256
