import { afterAll, beforeAll, expect, test } from 'vitest';

import { TestServer } from '../../testing/test-server.ts';
import { searchTrajectories } from './search-trajectories.ts';

let server: TestServer;
beforeAll(async () => {
  server = await TestServer.start();
});
afterAll(() => server.close());

test.each(['asc', 'desc'] as const)(
  'a request that has read its share returns its position, and the next one resumes there (%s)',
  async (order) => {
    const { store, blobs } = server;
    const modelId = await server.makeModel(`share-${order}`);
    const ids: string[] = [];
    for (let job = 0; job < 5; job++) {
      const groups = ['needle', 'hay'].map((content) => ({
        trajectories: [{ reward: job, messages_and_choices: [{ role: 'user', content }] }],
      }));
      const answer = await server.request('POST', '/v1/preview/training-jobs', {
        model_id: modelId,
        trajectory_groups: groups,
      });
      ids.push(`${answer.json<{ id: string }>().id}.0.0`);
    }
    const seen: string[] = [];
    let after: string | null = null;
    let numPages = 0;
    for (;;) {
      const page = await searchTrajectories({ store, blobs, maxReadBytes: 1 }, { modelId, order, after }, 'NEEDLE');
      expect(page.items.length).toBeLessThanOrEqual(1);
      seen.push(...page.items.map(({ id }) => id));
      numPages += 1;
      if (!page.hasMore) break;
      expect(page.lastId).not.toBeNull();
      after = page.lastId;
    }
    expect(seen).toEqual(order === 'asc' ? ids : ids.toReversed());
    expect(numPages).toBe(5);
  },
);
