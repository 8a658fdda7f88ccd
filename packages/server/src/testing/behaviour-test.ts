import { test as vitestTest } from 'vitest';

import { GuestRefusal } from './guest-refusal.ts';

/** By another name: what follows makes tests, and is none. */
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

/** A test of behaviour: with a guest under the service it passes, too, when a field is refused as `noticeRefusal` says. */
export const test: Pick<typeof anyTest, 'each'> & ((name: string, body: () => unknown) => void) = Object.assign(
  (name: string, body: () => unknown) => anyTest(name, unlessRefused(body) as () => Promise<void>),
  {
    each: ((cases: never) => (name: string, body: Body) =>
      anyTest.each(cases)(name, unlessRefused(body) as never)) as unknown as typeof anyTest.each,
  },
);
