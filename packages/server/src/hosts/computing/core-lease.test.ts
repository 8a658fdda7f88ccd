import { describe, expect, it } from 'vitest';

import { CoreLease, type CoreMessage } from './core-lease.ts';

function lease(): { cores: CoreLease; sent: CoreMessage[] } {
  const sent: CoreMessage[] = [];
  return { cores: new CoreLease((message) => sent.push(message)), sent };
}

describe('CoreLease', () => {
  it('asks once and keeps the grant from slice to slice', async () => {
    const { cores, sent } = lease();
    const acquired = cores.acquire();
    cores.onCommand({ kind: 'cores-granted' });
    await acquired;
    for (let slice = 0; slice < 3; slice++) {
      cores.release();
      await cores.acquire();
    }
    expect(sent).toEqual([{ kind: 'cores-request', use: 'alone' }]);
  });

  it('gives the cores back at the end of the slice in which they are wanted, and queues again', async () => {
    const { cores, sent } = lease();
    const acquired = cores.acquire();
    cores.onCommand({ kind: 'cores-granted' });
    await acquired;
    cores.onCommand({ kind: 'cores-wanted' });
    expect(sent).toHaveLength(1);
    cores.release();
    expect(sent.at(-1)).toEqual({ kind: 'cores-release', wantsMore: true });
    const again = cores.acquire();
    expect(sent, 'the release has queued it already').toHaveLength(2);
    cores.onCommand({ kind: 'cores-granted' });
    await again;
  });

  it('gives the cores back at the end of any later slice, too', async () => {
    const { cores, sent } = lease();
    const acquired = cores.acquire();
    cores.onCommand({ kind: 'cores-granted' });
    await acquired;
    cores.release();
    await cores.acquire();
    cores.onCommand({ kind: 'cores-wanted' });
    expect(sent, 'a slice is not cut short').toHaveLength(1);
    cores.release();
    expect(sent.at(-1)).toEqual({ kind: 'cores-release', wantsMore: true });
  });

  it('gives them back at once between slices', async () => {
    const { cores, sent } = lease();
    const acquired = cores.acquire();
    cores.onCommand({ kind: 'cores-granted' });
    await acquired;
    cores.release();
    cores.onCommand({ kind: 'cores-wanted' });
    expect(sent.at(-1)).toEqual({ kind: 'cores-release', wantsMore: false });
  });

  it('holds on when wanted between the grant and the start of its slice', async () => {
    const { cores, sent } = lease();
    const acquired = cores.acquire();
    cores.onCommand({ kind: 'cores-granted' });
    cores.onCommand({ kind: 'cores-wanted' });
    await acquired;
    expect(sent).toHaveLength(1);
    cores.release();
    expect(sent.at(-1)).toEqual({ kind: 'cores-release', wantsMore: true });
  });

  it('returns a grant that has no waiter any more', async () => {
    const { cores, sent } = lease();
    const controller = new AbortController();
    const acquired = cores.acquire(controller.signal);
    controller.abort(new Error('cancelled'));
    await expect(acquired).rejects.toThrow('cancelled');
    cores.onCommand({ kind: 'cores-granted' });
    expect(sent).toEqual([
      { kind: 'cores-request', use: 'alone' },
      { kind: 'cores-release', wantsMore: false },
    ]);
    const again = cores.acquire();
    cores.onCommand({ kind: 'cores-granted' });
    await again;
  });

  it('asks once for all waiters before the grant, also after the first of them gave up', async () => {
    const { cores, sent } = lease();
    const controller = new AbortController();
    const acquired = cores.acquire(controller.signal);
    controller.abort(new Error('cancelled'));
    await expect(acquired).rejects.toThrow('cancelled');
    const again = cores.acquire();
    cores.onCommand({ kind: 'cores-granted' });
    await again;
    expect(sent).toEqual([{ kind: 'cores-request', use: 'alone' }]);
  });

  it('reports each slice, also several of one grant', async () => {
    const told: string[] = [];
    const cores = new CoreLease(() => {}, {
      sliceBegan: () => told.push('began'),
      sliceEnded: () => told.push('ended'),
    });
    const acquired = cores.acquire();
    cores.onCommand({ kind: 'cores-granted' });
    expect(told, 'not before the slice').toEqual([]);
    await acquired;
    cores.release();
    await cores.acquire();
    cores.release();
    expect(told).toEqual(['began', 'ended', 'began', 'ended']);
  });

  it('has nothing to give back when it holds nothing', () => {
    const { cores, sent } = lease();
    cores.giveBack();
    expect(sent).toEqual([]);
  });
});
