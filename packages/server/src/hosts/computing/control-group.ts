import { readFileSync } from 'node:fs';

/** Reads a system file. Returns an empty text if there is no such file, or no free file handle. */
export type ReadText = (path: string) => string;

export const readSystemFile: ReadText = (path) => {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
};

/**
 * Content of a file in this process's control group, for both versions of cgroups. Empty if there is none.
 * @param name of the file: `v1` in the controller's hierarchy, `v2` in the unified one
 */
export function readGroupFile(
  controller: 'memory' | 'pids',
  name: { readonly v1: string; readonly v2: string },
  read: ReadText = readSystemFile,
): string {
  const groups = read('/proc/self/cgroup');
  const unified = /^0::(.*)$/m.exec(groups)?.[1];
  const own = new RegExp(`^\\d+:(?:[^:\\n]*,)?${controller}(?:,[^:\\n]*)?:(.*)$`, 'm').exec(groups)?.[1];
  // A container sees its own group as the root, regardless of the path.
  const paths = [
    ...(unified === undefined ? [] : [`/sys/fs/cgroup${unified}/${name.v2}`, `/sys/fs/cgroup/${name.v2}`]),
    ...(own === undefined ? [] : [`/sys/fs/cgroup/${controller}${own}/${name.v1}`]),
    ...(own === undefined ? [] : [`/sys/fs/cgroup/${controller}/${name.v1}`]),
  ];
  for (const path of paths) {
    const text = read(path);
    if (text !== '') return text;
  }
  return '';
}
