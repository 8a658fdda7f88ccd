import { execFileSync } from 'node:child_process';
import { readdirSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { dirname, join, relative } from 'node:path';

import {
  createVirtualEnvironment,
  isVirtualEnvironmentCurrent,
  virtualEnvironment,
} from '../../scripts/lib/virtual-environment.mjs';
import { ROOT } from '../serving/peers/model-files.ts';
import type { Log } from '../serving/peers/peer.ts';
import { ensureTcmalloc } from '../serving/peers/tcmalloc.ts';
import { openMpOf } from '../serving/peers/vllm.ts';

/** The requirements are complete. */
const PIP_OPTIONS = ['--no-deps', '--only-binary=:all:'];

/** Creates the environment with TRL and peft if it is missing (0.6 GB, next to PyTorch's 2.2 GB). @returns its Python */
export async function ensureLoopEnvironment(log: Log): Promise<string> {
  const torchPython = execFileSync(process.execPath, [join(ROOT, 'scripts/torch-environment.mjs')], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  }).trim();
  const environment = virtualEnvironment(join(ROOT, '.cache/venv-loop'), join(import.meta.dirname, 'requirements.txt'));
  if (await isVirtualEnvironmentCurrent(environment)) return environment.python;
  log(`installing TRL into ${environment.directory} (0.6 GB, a minute)`);
  const finish = async (): Promise<void> => {
    // Its own packages come first. The path is relative, so that both environments can be moved together.
    const folder = JSON.stringify(relative(environment.directory, packagesOf(torchPython)));
    const text = `import os, site, sys; site.addsitedir(os.path.join(sys.prefix, ${folder}))\n`;
    writeFileSync(join(packagesOf(environment.python), 'torch-environment.pth'), text);
  };
  await createVirtualEnvironment(environment, { pipOptions: PIP_OPTIONS, finish });
  return environment.python;
}

/** Environment variables for PyTorch on all cores, as its tuning guide advises: Intel's OpenMP and tcmalloc. */
export async function torchVariables(python: string, log: Log): Promise<Record<string, string>> {
  const openMp = process.arch === 'x64' ? [openMpOf(python)] : [];
  return {
    LD_PRELOAD: [await ensureTcmalloc(log), ...openMp].join(':'),
    OMP_NUM_THREADS: String(availableParallelism()),
    KMP_AFFINITY: 'granularity=fine,compact,1,0',
    KMP_BLOCKTIME: '1',
    HF_HUB_OFFLINE: '1',
    TOKENIZERS_PARALLELISM: 'false',
    // Progress bars and deprecations of transformers.
    TQDM_DISABLE: '1',
    PYTHONWARNINGS: 'ignore',
  };
}

function packagesOf(python: string): string {
  const library = join(dirname(dirname(python)), 'lib');
  const version = readdirSync(library).find((name) => name.startsWith('python3'));
  if (version === undefined) throw new Error(`${library} has no packages of Python 3`);
  return join(library, version, 'site-packages');
}
