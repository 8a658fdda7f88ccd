import { readdirSync } from 'node:fs';

import { readGroupFile, readSystemFile, type ReadText } from '../../hosts/computing/control-group.ts';

export interface Use {
  readonly used: number;
  readonly limit: number;
}

/** Sources of the figures; default: Linux files and this process's user. */
export interface ThreadSources {
  readonly read: ReadText;
  /** ids of the visible processes */
  readonly pids: () => readonly string[];
  /** real user id; undefined: unknown */
  readonly userId: number | undefined;
}

const LINUX_SOURCES: ThreadSources = {
  read: readSystemFile,
  pids: () => readdirSync('/proc').filter((name) => /^\d+$/.test(name)),
  userId: process.getuid?.(),
};

/**
 * Processes and threads in use, with the nearest limit: the control group's (`pids.max`) or the user's
 * (`ulimit -u`). Null: no known limit, or the user's is far away.
 */
export function threadUse(sources: ThreadSources = LINUX_SOURCES): Use | null {
  const uses = [useOfGroup(sources), useOfUser(sources)].filter((use) => use !== null);
  return uses.toSorted((a, b) => b.used / b.limit - a.used / a.limit)[0] ?? null;
}

function useOfGroup({ read }: ThreadSources): Use | null {
  const used = Number(readGroupFile('pids', { v1: 'pids.current', v2: 'pids.current' }, read));
  const limit = Number(readGroupFile('pids', { v1: 'pids.max', v2: 'pids.max' }, read));
  return used > 0 && limit > 0 ? { used, limit } : null;
}

/** The system applies this limit to every user except root, over all processes of the user. */
function useOfUser({ read, pids, userId }: ThreadSources): Use | null {
  if (userId === undefined || userId === 0) return null;
  const limit = Number(/^Max processes +(\d+)/m.exec(read('/proc/self/limits'))?.[1]);
  if (!(limit > 0)) return null;
  // Counting reads a file per process, so it waits until all threads of the machine reach half of the limit.
  const all = Number(/\/(\d+) /.exec(read('/proc/loadavg'))?.[1]);
  if (all < limit / 2) return null;
  let used = 0;
  for (const pid of pids()) {
    const status = read(`/proc/${pid}/status`);
    if (Number(/^Uid:\s+(\d+)/m.exec(status)?.[1]) === userId) used += Number(/^Threads:\s+(\d+)/m.exec(status)?.[1]);
  }
  return { used, limit };
}
