import { readlinkSync } from 'node:fs';

/** Network namespace of a process, by its name in /proc. */
export function networkNamespace(pid: number): string {
  return readlinkSync(`/proc/${pid}/ns/net`);
}
