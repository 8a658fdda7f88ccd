import { spawn } from 'node:child_process';
import { createWriteStream } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

import { freePort } from '../free-port.mjs';
import {
  createVirtualEnvironment,
  isVirtualEnvironmentCurrent,
  virtualEnvironment,
} from '../../scripts/lib/virtual-environment.mjs';

const START_TIMEOUT_MS = 300_000;

/** @param {string} root the repository */
export function skyrlEnvironment(root) {
  return virtualEnvironment(join(root, '.cache/venv-skyrl'), join(root, 'tests/skyrl/requirements.txt'));
}

/**
 * Installs SkyRL if missing: 6.3 GB, some minutes.
 * @param {string} root the repository @param {(line: string) => void} log
 */
export async function ensureSkyrl(root, log) {
  const environment = skyrlEnvironment(root);
  if (await isVirtualEnvironmentCurrent(environment)) return;
  log(`installing SkyRL into ${environment.directory} (6.3 GB, some minutes)`);
  await createVirtualEnvironment(environment, { minor: 12, pipOptions: ['--no-cache'] });
}

/**
 * SkyRL, including its engine: `kill` is SIGKILL; while paused, it computes and answers nothing.
 * @typedef {{ url: string, port: number, pid: number, logPath: string, stop: () => Promise<void>, kill: () =>
 * Promise<void>, pause: () => void, resume: () => void }} SkyrlServer
 */

/**
 * Starts SkyRL on this machine's CPU.
 *
 * @param {string} root the repository
 * @param {{ modelFolder: string, workFolder: string, maxRank: number, port?: number, numThreads?: number }}
 * options `modelFolder` in the format of Hugging Face; `workFolder` gets its database,
 *   checkpoints and log, and continues an existing one; `port`: default: any free one; `numThreads`: of XLA, default 1
 * @returns {Promise<SkyrlServer>}
 * @throws if it does not answer within five minutes
 */
export async function startSkyrl(root, { modelFolder, workFolder, maxRank, port: given, numThreads = 1 }) {
  const { python, directory } = skyrlEnvironment(root);
  const port = given ?? (await freePort());
  const url = `http://127.0.0.1:${port}`;
  const logPath = join(workFolder, 'skyrl.log');
  const log = createWriteStream(logPath, { flags: 'a' });
  await new Promise((opened) => log.once('open', opened));
  const backend = {
    max_lora_adapters: 5,
    max_lora_rank: maxRank,
    train_micro_batch_size: 4,
    sample_max_num_sequences: 4,
  };
  const options = {
    '--host': '127.0.0.1',
    '--port': String(port),
    '--base-model': modelFolder,
    '--backend': 'jax',
    '--checkpoints-base': join(workFolder, 'checkpoints'),
    '--database-url': `sqlite:///${join(workFolder, 'skyrl.db')}`,
    '--backend-config': JSON.stringify(backend),
  };
  const child = spawn(
    join(dirname(python), 'uv'),
    ['run', '--no-project', '--no-sync', '-m', 'skyrl.tinker.api', ...Object.entries(options).flat()],
    {
      stdio: ['ignore', log, log],
      // A separate process group: the engine is a child of the API server, and both must end.
      detached: true,
      env: {
        ...process.env,
        VIRTUAL_ENV: directory,
        PATH: `${dirname(python)}:${process.env['PATH']}`,
        HF_HUB_OFFLINE: '1',
        UV_OFFLINE: '1',
        // Keeps Python's compiled files in any environment: without them each start takes a minute more.
        PYTHONDONTWRITEBYTECODE: '',
        JAX_PLATFORMS: 'cpu',
        XLA_FLAGS: `--xla_cpu_multi_thread_eigen=${numThreads > 1} intra_op_parallelism_threads=${numThreads}`,
        JAX_COMPILATION_CACHE_DIR: join(root, '.cache/jax-compiled'),
        JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS: '0',
        JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES: '-1',
      },
    },
  );
  const exited = new Promise((done) => child.once('exit', done));
  const signal = (/** @type {NodeJS.Signals} */ name) => {
    try {
      if (child.pid !== undefined) process.kill(-child.pid, name);
    } catch {
      // The whole group has ended.
    }
  };
  const killAtExit = () => signal('SIGKILL');
  process.once('exit', killAtExit);
  const kill = async () => {
    signal('SIGKILL');
    await exited;
    process.off('exit', killAtExit);
  };
  const pause = () => signal('SIGSTOP');
  const resume = () => signal('SIGCONT');
  const stop = async () => {
    resume();
    signal('SIGTERM');
    await Promise.race([exited, delay(10_000)]);
    await kill();
  };
  const deadline = performance.now() + START_TIMEOUT_MS;
  while (!(await answers(url))) {
    if (child.exitCode !== null) throw new Error(`SkyRL ended with exit code ${child.exitCode}. Check ${logPath}`);
    if (performance.now() > deadline) {
      await stop();
      throw new Error(`SkyRL does not answer. Check ${logPath}`);
    }
    await delay(500);
  }
  return { url, port, pid: child.pid ?? 0, logPath, stop, kill, pause, resume };
}

/** @param {string} url */
async function answers(url) {
  try {
    return (await fetch(`${url}/api/v1/healthz`)).ok;
  } catch {
    return false;
  }
}
