import { OPERATION_EXAMPLES, OPERATIONS } from '@trainyard/protocol';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { answerFault, eventFault, operationOf } from '../../../testing/documented-answers.ts';
import { TestServer } from '../../../testing/test-server.ts';

let server: TestServer;
let key: string;
beforeAll(async () => {
  server = await TestServer.start();
  key = await server.makeKey('acme', ['admin']);
});
afterAll(() => server.close());

const TEXT_ANSWERS = ['downloadExportFile', 'home', 'reference', 'metrics', 'loadLoraAdapter', 'unloadLoraAdapter'];

describe('the examples of the OpenAPI document', () => {
  test('are of operations that exist', () => {
    const ids = new Set(OPERATIONS.map(({ id }) => id));
    expect(Object.keys(OPERATION_EXAMPLES).filter((id) => !ids.has(id))).toEqual([]);
  });

  test.each(OPERATIONS.map((operation) => [operation.id, operation] as const))(
    '%s has an example, which is as documented and which the route accepts',
    async (id, { method, paths, pathParameters = {}, body, upload, answer, chunk }) => {
      const example = OPERATION_EXAMPLES[id];
      if (example === undefined) throw new Error(`operation-examples.ts has none of ${id}`);
      expect(Object.keys(example.path ?? {}).toSorted()).toEqual(Object.keys(pathParameters).toSorted());
      expect(example.body !== undefined, 'a body').toBe(body !== undefined || id === 'uploadArtifact');
      expect(example.chunk !== undefined, 'a chunk').toBe(chunk !== undefined);

      const operation = operationOf(method.toUpperCase(), paths[0]);
      if (operation === undefined) throw new Error(`${id} is not documented`);
      if ('mediaType' in answer) expect(TEXT_ANSWERS).toContain(id);
      else expect(answerFault(operation, 200, example.answer)).toBeNull();
      if (chunk !== undefined) expect(eventFault(operation, example.chunk)).toBeNull();

      const url = paths[0].replaceAll(/\{(\w+)\}/g, (_match, name: string) =>
        encodeURIComponent(example.path?.[name] ?? ''),
      );
      const query = new URLSearchParams(
        Object.entries(example.query ?? {}).map(([name, value]): [string, string] => [name, `${value}`]),
      );
      const { statusCode, body: text } = await server.app.inject({
        method: method.toUpperCase() as 'GET',
        url: `${url}?${query.toString()}`,
        headers: {
          authorization: `Bearer ${key}`,
          'sec-fetch-site': 'same-origin',
          ...(upload !== undefined && { 'content-type': upload.mediaTypes[0] }),
        },
        ...(example.body !== undefined && { payload: example.body as object }),
      });
      // Its ids, names and codes do not exist here: only their form is checked.
      expect(id === 'createSession' ? [401] : [200, 404], text).toContain(statusCode);
    },
  );
});
