import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

/** State of a listening socket in /proc/net/tcp. */
const LISTENING = '0A';

/**
 * @returns the process that listens on a port of this machine; null if there is none, it belongs to another
 * user, or /proc is absent
 */
export function listenerOf(port: number): number | null {
  try {
    const inodes = new Set(['/proc/net/tcp', '/proc/net/tcp6'].flatMap((table) => listeningInodes(table, port)));
    for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
      if (openSockets(pid).some((inode) => inodes.has(inode))) return Number(pid);
    }
  } catch {
    // another operating system
  }
  return null;
}

/** Memory of some processes, bytes, with a proportional part of shared memory; null if unreadable. */
export function proportionalBytes(pids: Iterable<number>): number | null {
  let kilobytes = 0;
  for (const pid of pids) {
    try {
      const [, size] = /^Pss:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8')) ?? [];
      if (size === undefined) return null;
      kilobytes += Number(size);
    } catch (error) {
      // An ended process has none.
      if (!['ENOENT', 'ESRCH'].includes(String((error as NodeJS.ErrnoException).code))) return null;
    }
  }
  return kilobytes * 1024;
}

function listeningInodes(table: string, port: number): string[] {
  const lines = readFileSync(table, 'utf8').split('\n').slice(1);
  const fields = lines.map((line) => line.trim().split(/\s+/));
  return fields.flatMap(([, address = '', , state, , , , , , inode = '']) =>
    state === LISTENING && Number.parseInt(address.split(':')[1] ?? '', 16) === port ? [inode] : [],
  );
}

function openSockets(pid: string): string[] {
  try {
    return readdirSync(`/proc/${pid}/fd`).flatMap((fd) => {
      try {
        return /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/${pid}/fd/${fd}`))?.[1] ?? [];
      } catch {
        return [];
      }
    });
  } catch {
    // It ended, or belongs to another user.
    return [];
  }
}
