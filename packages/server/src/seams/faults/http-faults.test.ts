import { readFileSync } from 'node:fs';

import type { EngineErrorCode } from '@trainyard/backend';
import type { RequestErrorCode, ValidationItem } from '@trainyard/protocol';
import { StoreError } from '@trainyard/store';
import { describe, expect, test } from 'vitest';

import { BackendFailure } from './backend-failure.ts';
import { type FaultCode, HTTP_FAULTS, toErrorAnswer } from './http-faults.ts';
import { RequestError } from './request-error.ts';

describe('the answer to a failure', () => {
  test('of the request carries its code, its field and both shapes', () => {
    const { status, body, headers } = toErrorAnswer(
      new RequestError('request.conflict', 'no', { param: 'n', headers: { allow: 'GET' } }),
      'training',
    );
    expect(status).toBe(400);
    expect(headers).toEqual({ 'x-should-retry': 'false', allow: 'GET' });
    expect(body).toEqual({
      detail: [{ loc: ['body', 'n'], msg: 'no', type: 'value_error' }],
      error: { message: 'no', type: 'invalid_request_error', param: 'n', code: 'request.conflict' },
    });
  });

  const ofValidation = (Object.keys(HTTP_FAULTS) as FaultCode[]).flatMap((code) =>
    (['inference', 'training'] as const).flatMap((scope) => {
      const { status } = toErrorAnswer(Object.assign(new Error('no'), { code }), scope);
      return status === 400 || status === 422 ? [[code, scope] as const] : [];
    }),
  );

  test.each(ofValidation)('of %s in the scope %s has a list of failed checks', (code, scope) => {
    for (const thrown of [
      Object.assign(new Error('no'), { code }),
      new RequestError(code as RequestErrorCode, 'no'),
      new RequestError(code as RequestErrorCode, 'no', { param: 'messages.0.role' }),
      new BackendFailure(code as EngineErrorCode, 'no', 'prompt'),
    ]) {
      const { body } = toErrorAnswer(thrown, scope);
      expect(body.detail).toEqual([
        { loc: expect.any(Array) as unknown, msg: 'no', type: expect.stringMatching(/^\w+$/) as string },
      ]);
      expect((body.detail as ValidationItem[])[0]!.loc[0]).toMatch(/^(?:body|query|path|header)$/);
    }
  });

  test('names the part of the request that has the parameter', () => {
    const detailOf = (error: Error) =>
      toErrorAnswer(error, 'training', undefined, (name) => (name === 'q' ? 'query' : 'body')).body.detail;
    expect(detailOf(new RequestError('request.conflict', 'no', { param: 'q' }))).toMatchObject([
      { loc: ['query', 'q'] },
    ]);
    expect(detailOf(new RequestError('request.conflict', 'no', { param: 'messages.0.role' }))).toMatchObject([
      { loc: ['body', 'messages', 0, 'role'] },
    ]);
    const cursor = Object.assign(new Error('no'), { code: 'store.cursor_unknown' });
    expect(detailOf(cursor)).toMatchObject([{ loc: ['query', 'after'] }]);
  });

  test('quotes a client’s value only up to a readable length', () => {
    const long = `${'x'.repeat(7_999)}🎉${'y'.repeat(1_000_000)}`;
    const items = [{ loc: ['body', long], msg: long, type: 'value_error' }];
    const { body } = toErrorAnswer(new RequestError('request.invalid', long, { param: long, items }), 'inference');
    expect(JSON.stringify(body).length).toBeLessThan(20_000);
    expect(body.error.message).toBe(`${'x'.repeat(7_999)}\ufffd… (1000001 more characters)`);
    expect(body.error.param).toBe(`${'x'.repeat(200)}… (${long.length - 200} more characters)`);
    expect(body.detail).toEqual([{ loc: ['body', body.error.param], msg: body.error.message, type: 'value_error' }]);
  });

  test('of a back end keeps its words when the client can act on them', () => {
    const { status, body } = toErrorAnswer(
      new BackendFailure('context_length_exceeded', 'the prompt has 9 tokens, the context 8', 'messages'),
      'inference',
    );
    expect([status, body.error.message, body.error.param]).toEqual([
      400,
      'the prompt has 9 tokens, the context 8',
      'messages',
    ]);
  });

  test.each([
    ['inference', 400],
    ['training', 422],
    ['admin', 422],
    ['public', 422],
    [undefined, 422],
  ] as const)(
    'of a value has on routes of the scope %s the status %i, and the whole list on all',
    (scope, expected) => {
      const items = [
        { loc: ['body', 'n'], msg: 'Field required', type: 'missing' },
        { loc: ['body', 'top_p'], msg: 'Field required', type: 'missing' },
      ];
      const { status, body } = toErrorAnswer(RequestError.invalid(items), scope);
      expect([status, body.detail, body.error.param]).toEqual([expected, items, 'n']);
    },
  );

  test.each([
    new Error('at /srv/x'),
    new StoreError('store.corrupt', 'at /srv/x'),
    new BackendFailure('engine.internal', 'at /srv/x', null),
    'at /srv/x',
    null,
    { code: 'engine.overloaded' },
  ])('of the service itself shows nothing inside: %s', (thrown) => {
    const { status, body, isInternal } = toErrorAnswer(thrown, 'inference');
    expect([status, isInternal]).toEqual([500, true]);
    expect(JSON.stringify(body)).not.toContain('/srv');
  });
});

test('no failure of the service shows its message, which may name files of the machine, with any code', () => {
  const shown = Object.keys(HTTP_FAULTS).filter((code) =>
    JSON.stringify(
      toErrorAnswer(Object.assign(new Error('database /srv/x.sqlite'), { code }), 'inference').body,
    ).includes('/srv'),
  );
  // Refusals concern the request; these few failures have our own messages, without files.
  const failures = shown.filter((code) => HTTP_FAULTS[code as FaultCode].status >= 500);
  expect(failures).toEqual([
    'server.unavailable',
    'engine.aborted',
    'engine.adapter_damaged',
    'engine.model_damaged',
    'engine.host_lost',
    'trainer.non_finite',
    'trainer.checkpoint_damaged',
    'trainer.export_differs',
    'trainer.host_lost',
    'trainer.remote_unavailable',
    'trainer.remote_refused',
    'trainer.remote_differs',
    'hub.unreachable',
    'hub.answer_invalid',
    'hub.disk_full',
  ]);
});

test('a busy store is 503, to be tried again in a second', () => {
  const busy = new StoreError('store.busy', 'database /srv/x: locked');
  const { status, body, headers, isInternal } = toErrorAnswer(busy, 'inference');
  expect([status, headers, isInternal]).toEqual([503, { 'x-should-retry': 'true', 'retry-after': '1' }, false]);
  expect(body.error).toMatchObject({ code: 'store.busy', message: expect.stringContaining('retry') });
});

test('retryable faults have only the statuses 408, 409, 429 and 503', () => {
  const retryable = Object.entries(HTTP_FAULTS).filter(([, fault]) => fault.retryable);
  expect(retryable.map(([, fault]) => fault.status).filter((status) => ![408, 409, 429, 503].includes(status))).toEqual(
    [],
  );
  for (const [, fault] of Object.entries(HTTP_FAULTS)) expect(fault.status).toBeGreaterThanOrEqual(400);
});

test('docs/reference/errors.md has every code, with its status, its type and retry advice, and no other', () => {
  const page = readFileSync(new URL('../../../../../docs/reference/errors.md', import.meta.url), 'utf8');
  const rows = [
    ...page.matchAll(/^\| `([^`]+)` \| (\d+(?:, (?:inference|path) \d+)?) \| (\w+) \| (yes|no) \| (.+) \|$/gm),
  ];
  const documented = rows.map(([, code, status, type, retry]) => [code, status, type, retry === 'yes']);
  const real = Object.entries(HTTP_FAULTS).map(([code, fault]) => {
    const { status, type, retryable } = fault;
    const elsewhere =
      'inferenceStatus' in fault
        ? `, inference ${fault.inferenceStatus}`
        : 'pathStatus' in fault
          ? `, path ${fault.pathStatus}`
          : '';
    const statuses = `${status}${elsewhere}`;
    return [code, statuses, type, retryable];
  });
  expect(documented).toEqual(real);
  expect(new Set(rows.map(([, , , , , meaning]) => meaning)).size).toBe(rows.length);
});
