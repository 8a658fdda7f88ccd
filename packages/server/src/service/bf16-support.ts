import { existsSync, readFileSync } from 'node:fs';
import { isAbsolute } from 'node:path';

import type { ServiceConfig } from './config.ts';

/** As Linux names what multiplies bf16: AVX-512 with that extension, and AMX. */
const PROCESSOR_FLAGS = ['avx512_bf16', 'amx_bf16'];

/** The means of `precision: bf16` on this machine, as far as can be told without loading anything. */
export interface Bf16Support {
  /** Whether the processor multiplies bf16; null where the system does not say. */
  readonly processor: boolean | null;
  /** Whether the library is there; null where only loading it would tell. */
  readonly library: boolean | null;
}

/** @param cpuinfo text of /proc/cpuinfo; null: there is none. Default: that of this machine */
export function bf16Support(
  { oneDnnPath }: Pick<ServiceConfig, 'oneDnnPath'>,
  cpuinfo: string | null = readCpuinfo(),
): Bf16Support {
  const flags = /^flags\s*: (.*)$/m.exec(cpuinfo ?? '')?.[1]?.split(' ');
  return {
    processor: flags === undefined ? null : PROCESSOR_FLAGS.some((flag) => flags.includes(flag)),
    library: isAbsolute(oneDnnPath) ? existsSync(oneDnnPath) : null,
  };
}

function readCpuinfo(): string | null {
  try {
    return readFileSync('/proc/cpuinfo', 'utf8');
  } catch {
    return null; // another system
  }
}
