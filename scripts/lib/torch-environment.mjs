import { readdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { createVirtualEnvironment, isVirtualEnvironmentCurrent, virtualEnvironment } from './virtual-environment.mjs';

/**
 * CUDA libraries to which the Linux x64 wheel of torch is linked, and which are unused on a CPU: 3.5 GB. With
 * lazy binding the dynamic linker only needs files of these names, so each becomes a link to a small library
 * of torch itself.
 */
const UNUSED_CUDA_LIBRARIES = [
  'libcublas.so.12',
  'libcublasLt.so.12',
  'libcudnn.so.9',
  'libcufft.so.11',
  'libcurand.so.10',
  'libcusparse.so.12',
  'libcusparseLt.so.0',
  'libnccl.so.2',
  'libnvshmem_host.so.3',
];

/**
 * Virtual environment with PyTorch on the CPU, for making fixtures.
 * @param {string} root the repository
 */
export function torchEnvironment(root) {
  return virtualEnvironment(join(root, '.cache/venv-torch'), join(root, 'scripts/torch-requirements.txt'));
}

/** @param {string} root @returns {Promise<boolean>} true if the environment exists with the current requirements */
export async function hasTorchEnvironment(root) {
  return await isVirtualEnvironmentCurrent(torchEnvironment(root));
}

/**
 * Creates the environment: 2.2 GB, of which 1.7 GB are torch.
 *
 * Its requirements file is complete and installed with --no-deps, because the dependencies that torch
 * declares on Linux are all CUDA's.
 * @param {string} root
 * @throws {Error} naming the missing part
 */
export async function createTorchEnvironment(root) {
  const environment = torchEnvironment(root);
  const finish = async () => {
    if (process.platform === 'linux' && process.arch === 'x64') await replaceCudaLibraries(environment.directory);
  };
  await createVirtualEnvironment(environment, { pipOptions: ['--no-deps'], finish });
}

/** @param {string} directory */
async function replaceCudaLibraries(directory) {
  const [version = ''] = await readdir(join(directory, 'lib'));
  const packages = join(directory, 'lib', version, 'site-packages');
  for (const name of UNUSED_CUDA_LIBRARIES) await symlink('libc10.so', join(packages, 'torch/lib', name));
  // By default Python binds the symbols of extension modules when it loads them.
  await writeFile(join(packages, 'bind-lazily.pth'), 'import os, sys; sys.setdlopenflags(os.RTLD_LAZY)\n');
}
