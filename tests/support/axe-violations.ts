import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

import type { Page } from 'playwright-core';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

interface Violation {
  readonly id: string;
  readonly nodes: readonly { readonly html: string; readonly failureSummary: string }[];
}

/** Violations of axe rules, each with its element. */
export async function axeViolations(page: Page): Promise<string[]> {
  // Through the protocol, because the policy of a page allows no other script.
  await page.evaluate(`window.axe ?? (() => { ${AXE} })()`);
  const violations = await page.evaluate<Violation[]>('axe.run().then(({ violations }) => violations)');
  return violations.flatMap(({ id, nodes }) =>
    nodes.map(({ html, failureSummary }) => `${id}: ${html} ${failureSummary}`),
  );
}
