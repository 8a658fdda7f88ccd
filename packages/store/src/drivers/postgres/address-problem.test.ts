import { expect, test } from 'vitest';

import { addressProblem } from './address-problem.ts';

const problem = (search: string, environment = {}) => addressProblem(`postgres://u:pass@h/d${search}`, environment);

test.each([
  '',
  '?sslmode=verify-full&sslrootcert=/a/b.pem&sslcert=/c&sslkey=/d&sslnegotiation=direct',
  '?sslmode=disable',
  '?sslmode=no-verify',
  '?sslmode=require&uselibpqcompat=true',
  '?ssl=true',
  '?host=/run/a@b&port=5433&user=me@realm&password=p@ss&options=-c%20search_path%3Dx',
])('all of %s is heeded', (search) => {
  expect(problem(search)).toBeNull();
});

test.each([
  [
    '?sslmod=require',
    'has the invalid parameter sslmod: unknown; supported are host, port, user, password, options, ssl',
  ],
  ['?SSLMODE=require', 'has the invalid parameter SSLMODE: unknown'],
  [
    '?sslmode=requre',
    'sslmode: must be one of disable, no-verify, prefer, require, verify-ca, verify-full, got "requre"',
  ],
  ['?sslmode=allow', 'sslmode: must be one of'],
  ['?sslmode=', 'has the invalid parameter sslmode: empty'],
  ['?sslrootcert=&host=/run', 'has the invalid parameter sslrootcert: empty'],
  ['?sslmode=verify-full&sslmode=disable', 'has the invalid parameter sslmode: given twice'],
  ['?sslnegotiation=directly', 'sslnegotiation: must be one of postgres, direct, got "directly"'],
  ['?ssl=false', 'ssl: must be one of true, 1, no-verify, 0, got "false"'],
  ['?uselibpqcompat=false', 'uselibpqcompat: must be one of true'],
  ['?port=5432x', 'port: must be a whole number from 1 to 65535, got "5432x"'],
  ['?port=65536', 'port: must be a whole number'],
  ['?channel_binding=require', 'channel_binding: not supported by this service; remove it; supported are'],
  ['?dbname=other', 'dbname: not supported by this service (put the database into the path of the address)'],
  ['?application_name=mine', 'application_name: not supported'],
  ['?toString=1', 'toString: unknown'],
  ['?a%1b%5B31m=1', 'the invalid parameter "a\\u001b[31m": unknown'],
])('%s is refused', (search, words) => {
  expect(problem(search)).toContain(words);
  expect(problem(search)).not.toContain('pass@');
});

test.each([
  'postgres://u:12?secret=34@h/d',
  'postgres://u:12?secret@h/d?sslmode=require',
  'postgres://u:12?sslmode=secret@h/d',
  'postgres://u:12?a=b&secret=c&d=@h/d',
  'postgres://u:12/secret@h/d',
  'postgres://u:12#secret@h/d',
  'postgres://u:se?secret@h/d',
])('nothing of the password in %s is reported', (url) => {
  expect(addressProblem(url, {})).toMatch(/is not a valid address|question mark in the password/);
  expect(addressProblem(url, {})).not.toMatch(/secret|12|34/);
});

test('the variable that replaces sslmode is read when the driver needs it', () => {
  expect(problem('', { PGSSLMODE: 'requre' })).toBe(
    'has no sslmode, and the environment variable PGSSLMODE must be one of disable, no-verify, prefer, require, verify-ca, verify-full, got "requre"',
  );
  expect(problem('?host=/run', { PGSSLMODE: 'Require' })).toContain('PGSSLMODE');
  for (const mode of ['', 'require', 'verify-full', 'disable']) expect(problem('', { PGSSLMODE: mode })).toBeNull();
  expect(problem('?sslmode=verify-full', { PGSSLMODE: 'requre' })).toBeNull();
});
