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
    'has the parameter sslmod, which is not known; known are host, port, user, password, options, ssl',
  ],
  ['?SSLMODE=require', 'has the parameter SSLMODE, which is not known'],
  [
    '?sslmode=requre',
    'sslmode, which must be one of disable, no-verify, prefer, require, verify-ca, verify-full, got "requre"',
  ],
  ['?sslmode=allow', 'sslmode, which must be one of'],
  ['?sslmode=', 'has the parameter sslmode, which is empty'],
  ['?sslrootcert=&host=/run', 'has the parameter sslrootcert, which is empty'],
  ['?sslmode=verify-full&sslmode=disable', 'has the parameter sslmode, which is there twice'],
  ['?sslnegotiation=directly', 'sslnegotiation, which must be one of postgres, direct, got "directly"'],
  ['?ssl=false', 'ssl, which must be one of true, 1, no-verify, 0, got "false"'],
  ['?uselibpqcompat=false', 'uselibpqcompat, which must be one of true'],
  ['?port=5432x', 'port, which must be a whole number from 1 to 65535, got "5432x"'],
  ['?port=65536', 'port, which must be a whole number'],
  [
    '?channel_binding=require',
    'channel_binding, which libpq knows and this service does not heed: leave it out; known are',
  ],
  [
    '?dbname=other',
    'dbname, which libpq knows and this service does not heed (the database is the path of the address)',
  ],
  ['?application_name=mine', 'application_name, which libpq knows'],
  ['?toString=1', 'toString, which is not known'],
  ['?a%1b%5B31m=1', 'the parameter "a\\u001b[31m", which is not known'],
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
])('of the password in %s nothing is told', (url) => {
  expect(addressProblem(url, {})).toMatch(/cannot be read|password with a question mark/);
  expect(addressProblem(url, {})).not.toMatch(/secret|12|34/);
});

test('the variable that stands in for sslmode is looked at where the driver asks it', () => {
  expect(problem('', { PGSSLMODE: 'requre' })).toBe(
    'has no sslmode, and the variable PGSSLMODE must be one of disable, no-verify, prefer, require, verify-ca, verify-full, got "requre"',
  );
  expect(problem('?host=/run', { PGSSLMODE: 'Require' })).toContain('PGSSLMODE');
  for (const mode of ['', 'require', 'verify-full', 'disable']) expect(problem('', { PGSSLMODE: mode })).toBeNull();
  expect(problem('?sslmode=verify-full', { PGSSLMODE: 'requre' })).toBeNull();
});
