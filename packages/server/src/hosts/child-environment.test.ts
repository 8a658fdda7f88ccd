import { expect, test } from 'vitest';

import { childEnvironment } from './child-environment.ts';

test('a child gets what programs and libraries read, and no key', () => {
  const environment = {
    PATH: '/bin',
    LC_ALL: 'C.UTF-8',
    OMP_NUM_THREADS: '2',
    NODE_COMPILE_CACHE: '/clone/.cache/compiled',
    TMPDIR: '/tmp',
    TRAINYARD_API_KEY: 'secret',
    OPENAI_API_KEY: 'secret',
    AWS_SECRET_ACCESS_KEY: 'secret',
    NODE_OPTIONS: '--inspect',
  };
  const { PATH, LC_ALL, OMP_NUM_THREADS, NODE_COMPILE_CACHE, TMPDIR } = environment;
  expect(childEnvironment(environment)).toEqual({ PATH, LC_ALL, OMP_NUM_THREADS, NODE_COMPILE_CACHE, TMPDIR });
});
