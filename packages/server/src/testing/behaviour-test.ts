import { test as vitestTest } from 'vitest';

import { GuestRefusal } from './guest-refusal.ts';

/** Alias for lint: the calls below create tests, but are not tests. */
const anyTest = vitestTest;

type Body = (...args: never[]) => unknown;

function unlessRefused(body: Body): Body {
  return async (...args) => {
    try {
      await body(...args);
    } catch (error) {
      if (!(error instanceof GuestRefusal)) throw error;
    }
  };
}

/** A test of behaviour. With a guest back end it also passes if a field is refused, see `noticeRefusal`. */
export const test: Pick<typeof anyTest, 'each'> & ((name: string, body: () => unknown) => void) = Object.assign(
  (name: string, body: () => unknown) => anyTest(name, unlessRefused(body) as () => Promise<void>),
  {
    each: ((cases: never) => (name: string, body: Body) =>
      anyTest.each(cases)(name, unlessRefused(body) as never)) as unknown as typeof anyTest.each,
  },
);
