import { expect, test } from 'vitest';

import { logOf } from './log.ts';
import { openLog } from './open-log.ts';

const EVIL = 'a name\n2026-01-01 all is well\r\u001b[2J \u202e\u2028\u0085"}';

function lines(format: 'text' | 'json') {
  const written: string[] = [];
  const options = { format, role: 'trainer', instance: () => 'one', now: () => Date.UTC(2026, 0, 2) };
  return { log: openLog(options, (line) => written.push(line)), written };
}

test('a line in JSON is one object with its context', () => {
  const { log, written } = lines('json');
  logOf(log, { jobId: 'j', requestId: 'r' })('job j: gone on', { level: 'warn', traceId: 't' });
  log('started');
  expect(written.map((line) => JSON.parse(line))).toEqual([
    {
      time: '2026-01-02T00:00:00.000Z',
      level: 'warn',
      role: 'trainer',
      message: 'job j: gone on',
      instance: 'one',
      request_id: 'r',
      job_id: 'j',
      trace_id: 't',
    },
    { time: '2026-01-02T00:00:00.000Z', level: 'info', role: 'trainer', message: 'started', instance: 'one' },
  ]);
});

test('no value can start a line of its own or control a terminal, in either format', () => {
  for (const format of ['text', 'json'] as const) {
    const { log, written } = lines(format);
    log(EVIL, { requestId: EVIL });
    expect(written).toHaveLength(1);
    expect(written[0]!.replaceAll(/[\n\t]/g, '')).not.toMatch(/[\p{Cc}\u2028\u2029\u202e]/u);
    if (format === 'json') expect(JSON.parse(written[0]!)).toMatchObject({ message: EVIL, request_id: EVIL });
    for (const line of written[0]!.split('\n').slice(1)) expect(line).toMatch(/^ {4}/);
  }
});

test('people read only the message', () => {
  const { log, written } = lines('text');
  log('job j: gone on', { level: 'warn', jobId: 'j' });
  expect(written).toEqual(['job j: gone on']);
});
