import type { FastifyRequest } from 'fastify';
import { expect, test } from 'vitest';

import { detachRequest } from './detached-request.ts';

test('a request whose client has left cannot be detached: its resources were released', () => {
  const request = { end: { isOver: true }, detachedEnd: null } as FastifyRequest;
  expect(() => detachRequest(request)).toThrow('the client has left');
  expect(request.detachedEnd).toBeNull();
});
