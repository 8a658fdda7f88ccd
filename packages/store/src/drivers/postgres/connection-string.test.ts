import { expect, test } from 'vitest';

import { connectionString } from './connection-string.ts';

test.each(['prefer', 'require', 'verify-ca', 'verify-full'])(
  'TLS by sslmode=%s is TLS with a checked certificate',
  (mode) => {
    expect(connectionString(`postgres://u:p%23@h:1/d?sslmode=${mode}&sslrootcert=%2Fa%2Fb`)).toBe(
      'postgres://u:p%23@h:1/d?sslmode=verify-full&sslrootcert=%2Fa%2Fb',
    );
  },
);

test.each([
  'postgres://u@h/d',
  'postgres://u@h/d?sslmode=disable',
  'postgres://u@h/d?sslmode=no-verify',
  'postgres://u@h/d?sslmode=require&uselibpqcompat=true',
  'postgres://u:se#cret@h/d',
])('%s stays as it is', (url) => {
  expect(connectionString(url)).toBe(url);
});
