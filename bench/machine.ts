import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { cpus } from 'node:os';

/** Clock ticks per second in /proc, fixed at 100 on Linux. */
const TICKS_PER_SECOND = 100;

interface CpuSample {
  readonly atMs: number;
  /** processor seconds of all processes */
  readonly busySeconds: number;
  /** seconds of this process, the measured ones, and all their descendants, without the idle ones */
  readonly ownSeconds: number;
}

export function machineLine(): string {
  const all = cpus();
  return `${all.length} cores, ${all[0]?.model ?? 'unknown processor'}`;
}

/**
 * Sample of processor times. Contention distorts timings instead of scaling them, so a bench reports the load
 * of other processes.
 * @param measured processes that count as own, although they are not descendants
 * @param idle descendants that count as others: servers that should be idle meanwhile
 * @returns null without /proc
 */
export function sampleCpu(measured: readonly number[] = [], idle: readonly number[] = []): CpuSample | null {
  try {
    const fields = readFileSync('/proc/stat', 'utf8').split('\n')[0]!.trim().split(/\s+/).slice(1).map(Number);
    const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0] = fields;
    return {
      atMs: performance.now(),
      busySeconds: (user + nice + system + irq + softirq) / TICKS_PER_SECOND,
      ownSeconds: secondsOf([process.pid, ...measured]) - secondsOf(idle),
    };
  } catch {
    return null;
  }
}

/** Cores that other processes used between two samples. */
export function otherCores(before: CpuSample | null, after: CpuSample | null): number | null {
  if (before === null || after === null) return null;
  const busy = after.busySeconds - before.busySeconds - (after.ownSeconds - before.ownSeconds);
  return Math.max(0, busy / ((after.atMs - before.atMs) / 1000));
}

/**
 * Waits until other processes use at most a quarter of a core, for at most `maxWaitMs`.
 * @returns their use at the end
 */
export async function waitUntilQuiet(maxWaitMs: number): Promise<number | null> {
  const deadline = performance.now() + maxWaitMs;
  for (;;) {
    const before = sampleCpu();
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    const others = otherCores(before, sampleCpu());
    if (others === null || others <= 0.25 || performance.now() > deadline) return others;
  }
}

/** Use of a core below which a server counts as idle: its timers. */
const IDLE_CORES = 0.05;
const IDLE_CHECK_MS = 500;

/**
 * Waits until these processes and their descendants use almost no processor time, for at most `maxWaitMs`.
 * Threads of some servers spin for a while after an answer.
 * @returns their use at the end, cores; 0 without /proc
 */
export async function waitUntilIdle(roots: readonly number[], maxWaitMs: number): Promise<number> {
  const deadline = performance.now() + maxWaitMs;
  for (;;) {
    const [before, startedAt] = [secondsOf(roots), performance.now()];
    await new Promise((resolve) => setTimeout(resolve, IDLE_CHECK_MS));
    const cores = (secondsOf(roots) - before) / ((performance.now() - startedAt) / 1000);
    if (cores <= IDLE_CORES || performance.now() > deadline) return cores;
  }
}

/** Descendants of `roots`, and these themselves. Empty without /proc. */
export function processesBelow(roots: readonly number[], table = processTable()): number[] {
  const isBelow = (pid: number | undefined): boolean =>
    pid !== undefined && pid > 1 && (roots.includes(pid) || isBelow(table.get(pid)?.parent));
  return [...table.keys()].filter(isBelow);
}

/** Processor time of processes and their descendants. An ended child counts through its parent. */
export function secondsOf(roots: readonly number[]): number {
  const table = processTable();
  let ticks = 0;
  for (const pid of processesBelow(roots, table)) ticks += table.get(pid)?.ticks ?? 0;
  return ticks / TICKS_PER_SECOND;
}

function processTable(): Map<number, { parent: number; ticks: number }> {
  const processes = new Map<number, { parent: number; ticks: number }>();
  if (!existsSync('/proc')) return processes;
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'utf8');
      const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      const ticks = Number(fields[11]) + Number(fields[12]) + Number(fields[13]) + Number(fields[14]);
      processes.set(Number(name), { parent: Number(fields[1]), ticks });
    } catch {
      // it ended between the listing and the read
    }
  }
  return processes;
}
