import { readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { NativeError } from './errors.ts';

/** Must match the struct layouts in `structs.ts`. */
export const LLAMA_PACKAGE_VERSION = '3.22.1';

/** Each holds `bins/<the part after the slash>` with libllama, libggml and libggml-base. */
const PACKAGES: Readonly<Record<string, string>> = {
  'linux-x64': '@node-llama-cpp/linux-x64',
  'linux-arm64': '@node-llama-cpp/linux-arm64',
  'darwin-arm64': '@node-llama-cpp/mac-arm64-metal',
  'darwin-x64': '@node-llama-cpp/mac-x64',
  'win32-x64': '@node-llama-cpp/win-x64',
};

/**
 * @param platform `process.platform`
 * @param arch `process.arch`
 * @throws {NativeError} `native.platform_unsupported`, with the package to install if one exists
 */
export function libraryDirectory(platform: string = process.platform, arch: string = process.arch): string {
  const packageName = PACKAGES[`${platform}-${arch}`];
  if (packageName === undefined) {
    const supported = Object.keys(PACKAGES).join(', ');
    throw new NativeError(
      'native.platform_unsupported',
      `there is no prebuilt llama.cpp for ${platform}-${arch}; supported: ${supported}`,
    );
  }
  let entry: string;
  try {
    entry = createRequire(import.meta.url).resolve(packageName);
  } catch (cause) {
    throw new NativeError(
      'native.platform_unsupported',
      `${packageName} is not installed: run "npm install ${packageName}@${LLAMA_PACKAGE_VERSION}"`,
      { cause },
    );
  }
  return resolve(dirname(entry), '../bins', packageName.slice(packageName.indexOf('/') + 1));
}

/**
 * "llama" finds libllama.v0.5.0.so, libllama.metal.v0.5.0.dylib, llama.v0.5.0.dll.
 *
 * @throws {NativeError} `native.library_mismatch` if the folder has none
 */
export function libraryPath(directory: string, name: string): string {
  const pattern = new RegExp(`^(lib)?${name}(\\.[a-z]+)?(\\.v?\\d[\\d.]*)?\\.(so|dylib|dll)$`);
  const file = readdirSync(directory).find((entry) => pattern.test(entry));
  if (file === undefined) throw new NativeError('native.library_mismatch', `no ${name} library in ${directory}`);
  return join(directory, file);
}
