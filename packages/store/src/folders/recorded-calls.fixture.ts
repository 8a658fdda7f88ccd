// Runs the named acts, and prints the calls of `node:fs` that each made. A separate process, so that no other
// test sees the changed module.
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { basename, join } from 'node:path';

const calls: string[] = [];
const names = new Map<number, string>();
const nameOf = (path: unknown): string => basename(String(path)).replace(/\.\d+\.new$/, '.new');
const real = { ...fs };
Object.assign(fs, {
  openSync: (...values: Parameters<typeof fs.openSync>) => {
    const file = real.openSync(...values);
    names.set(file, nameOf(values[0]));
    return file;
  },
  fsyncSync: (file: number) => {
    calls.push(`sync ${names.get(file)}`);
    real.fsyncSync(file);
  },
  writeFileSync: (...values: Parameters<typeof fs.writeFileSync>) => {
    calls.push(`write ${nameOf(values[0])}`);
    real.writeFileSync(...values);
  },
  renameSync: (from: string, to: string) => {
    calls.push(`rename ${nameOf(from)} to ${nameOf(to)}`);
    real.renameSync(from, to);
  },
  linkSync: (from: string, to: string) => {
    calls.push(`link ${nameOf(from)} as ${nameOf(to)}`);
    real.linkSync(from, to);
  },
  mkdirSync: (...values: Parameters<typeof fs.mkdirSync>) => {
    calls.push(`make ${nameOf(values[0])}`);
    return real.mkdirSync(...values);
  },
});
syncBuiltinESMExports();
const { createFile, replaceFile } = await import('./replace-file.ts');
const { makeFolders } = await import('./make-folders.ts');

const [root = ''] = process.argv.slice(2);
const recorded = (act: () => unknown): string[] => {
  act();
  return calls.splice(0);
};
console.log(
  JSON.stringify({
    replaced: recorded(() => replaceFile(join(root, 'key'), 'new\n')),
    created: recorded(() => createFile(join(root, 'lock'), 'first')),
    made: recorded(() => makeFolders(join(root, 'a/b/c'))),
    madeAgain: recorded(() => makeFolders(join(root, 'a/b/c'))),
  }),
);
