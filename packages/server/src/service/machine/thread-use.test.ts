import { expect, test } from 'vitest';

import { threadUse } from './thread-use.ts';

const LIMITS = (processes: string) =>
  `Max cpu time unlimited\nMax processes             ${processes}   96365   processes\n`;
const status = (userId: number, threads: number) => `Name:\tnode\nUid:\t${userId}\t0\t0\t0\nThreads:\t${threads}\n`;

function use(files: Record<string, string>, userId = 1000) {
  const pids = Object.keys(files).flatMap((path) => /^\/proc\/(\d+)\/status$/.exec(path)?.[1] ?? []);
  return threadUse({ read: (path) => files[path] ?? '', pids: () => pids, userId });
}

const UNIFIED = { '/proc/self/cgroup': '0::/service\n' };
const OLD = { '/proc/self/cgroup': '8:pids:/service\n4:cpu,memory:/other\n0::/\n' };

test('the limit of a control group of either version counts', () => {
  const files = (folder: string) => ({ [`${folder}/pids.current`]: '90\n', [`${folder}/pids.max`]: '100\n' });
  expect(use({ ...UNIFIED, ...files('/sys/fs/cgroup/service') })).toEqual({ used: 90, limit: 100 });
  expect(use({ ...UNIFIED, ...files('/sys/fs/cgroup') })).toEqual({ used: 90, limit: 100 });
  expect(use({ ...OLD, ...files('/sys/fs/cgroup/pids/service') })).toEqual({ used: 90, limit: 100 });
  expect(use({ ...OLD, ...files('/sys/fs/cgroup/pids') })).toEqual({ used: 90, limit: 100 });
  expect(use({ ...OLD, '/sys/fs/cgroup/pids/pids.current': '90', '/sys/fs/cgroup/pids/pids.max': 'max' })).toBeNull();
});

test('the limit of the user counts all processes of that user', () => {
  const files = {
    '/proc/self/limits': LIMITS('100'),
    '/proc/loadavg': '0.1 0.1 0.1 2/400 77\n',
    '/proc/1/status': status(0, 300),
    '/proc/7/status': status(1000, 50),
    '/proc/8/status': status(1000, 40),
  };
  expect(use(files)).toEqual({ used: 90, limit: 100 });
  // This limit does not apply to root.
  expect(use(files, 0)).toBeNull();
  expect(use({ ...files, '/proc/self/limits': LIMITS('unlimited') })).toBeNull();
  // The whole machine is far from this limit.
  expect(use({ ...files, '/proc/self/limits': LIMITS('96365') })).toBeNull();
});

test('of two limits the nearer one counts', () => {
  const files = {
    ...UNIFIED,
    '/sys/fs/cgroup/service/pids.current': '90',
    '/sys/fs/cgroup/service/pids.max': '1000',
    '/proc/self/limits': LIMITS('100'),
    '/proc/loadavg': '0.1 0.1 0.1 2/400 77\n',
    '/proc/7/status': status(1000, 50),
  };
  expect(use(files)).toEqual({ used: 50, limit: 100 });
});
