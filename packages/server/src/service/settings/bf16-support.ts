import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { isAbsolute } from 'node:path';
import { promisify } from 'node:util';

import { childEnvironment } from '../../hosts/process/child-environment.ts';
import { does } from '../../seams/contract/role.ts';
import type { ServiceConfig } from './config.ts';

/** Linux flags of processors that multiply bf16: AVX-512 with that extension, and AMX. */
const PROCESSOR_FLAGS = ['avx512_bf16', 'amx_bf16'];

/**
 * True if the processor multiplies bf16; null if the system does not report it.
 * @param cpuinfo text of /proc/cpuinfo; null: there is none. Default: that of this machine
 */
export function multipliesBf16(cpuinfo: string | null = readCpuinfo()): boolean | null {
  const flags = /^flags\s*: (.*)$/m.exec(cpuinfo ?? '')?.[1]?.split(' ');
  return flags === undefined ? null : PROCESSOR_FLAGS.some((flag) => flags.includes(flag));
}

/** True if a process with these settings multiplies in bf16 itself. */
export function needsBf16({ precision, role, models, trainer }: ServiceConfig): boolean {
  if (precision !== 'bf16') return false;
  const samples = does(role, 'engine') && models.some(({ vllmUrls }) => vllmUrls.length === 0);
  return samples || (does(role, 'trainer') && trainer === null);
}

/** Loads the library and prints the loader's error. "Did not self-register" comes after a successful load. */
const LOAD = `try { process.dlopen({ exports: {} }, process.argv[1]) } catch (error) {
  if (!error.message.startsWith('Module did not self-register')) console.log(error.message);
}`;

/**
 * Reason why oneDNN's library cannot be loaded, as a clause with its name; null: it can. Only the system's
 * loader knows the search path, so a separate process loads it instead of this one.
 */
export async function oneDnnProblem({ oneDnnPath: path }: Pick<ServiceConfig, 'oneDnnPath'>): Promise<string | null> {
  if (isAbsolute(path) && !existsSync(path)) return `there is no ${path}`;
  const fault = await promisify(execFile)(process.execPath, ['-e', LOAD, path], { env: childEnvironment() }).then(
    ({ stdout }) => stdout.trim(),
    () => 'loading it crashes the process',
  );
  if (fault === '') return null;
  return isAbsolute(path) ? `${path} cannot be loaded (${fault})` : `the system finds no library ${path} (${fault})`;
}

function readCpuinfo(): string | null {
  try {
    return readFileSync('/proc/cpuinfo', 'utf8');
  } catch {
    return null; // another system
  }
}
