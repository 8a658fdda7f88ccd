#!/usr/bin/env bash
# Builds jinja.wasm next to this script, the same bytes from the same sources and compiler, and writes its digest.
# Needs rustup with the toolchain named below, and cargo's registry; takes a minute on one core. Nothing else needs it.
#
# The crate minijinja (Apache-2.0) is taken from the registry and changed by minijinja.patch; nothing of it is committed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

toolchain=1.95.0
target=wasm32-unknown-unknown
crate=minijinja-3.1.0
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
build="${CARGO_TARGET_DIR:-$work/target}"

rustup target add --toolchain "$toolchain" "$target"

cp -r src Cargo.toml Cargo.lock "$work"
# A manifest without the patched copy, so that cargo fetches the published crate.
mkdir "$work/fetch" && sed '/^\[patch/,/^$/d' Cargo.toml > "$work/fetch/Cargo.toml" && cp -r src "$work/fetch"
cargo "+$toolchain" fetch --quiet --manifest-path "$work/fetch/Cargo.toml"
cp -r "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/"$crate" "$work/minijinja"
chmod -R u+w "$work/minijinja"
patch --silent -p1 -d "$work/minijinja" < minijinja.patch

# The shadow stack is large because writing, comparing and freeing nested values recurses; the largest memory is 256 MiB.
# The remaps keep the paths of the machine that built it out of the file.
flags=(
  -C link-arg=-zstack-size=8388608
  -C link-arg=--max-memory=268435456
  -C target-feature=+simd128,+bulk-memory
  --remap-path-prefix="$work"=/jinja
  --remap-path-prefix="${CARGO_HOME:-$HOME/.cargo}"=/cargo
  --remap-path-prefix="$(rustc "+$toolchain" --print sysroot)"=/rust
  --remap-path-prefix="$build"=/build
)
(
  cd "$work"
  CARGO_ENCODED_RUSTFLAGS="$(IFS=$'\x1f'; echo "${flags[*]}")" CARGO_TARGET_DIR="$build" \
    nice -n 10 cargo "+$toolchain" build --locked --release --jobs 1 --target "$target"
)

cp "$build/$target/release/trainyard_jinja.wasm" jinja.wasm
if strings jinja.wasm | grep -nE "$HOME|$PWD|$work"; then
  echo 'a path of this machine is inside' >&2
  exit 1
fi
sha256sum jinja.wasm | tee jinja.wasm.sha256
