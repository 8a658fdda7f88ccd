import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { StoreError } from '../contract/errors.ts';
import { FullDisk } from './full-disk.ts';

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

it('a full disk is reported until a write succeeds, or for a minute without writes', () => {
  const disk = new FullDisk();
  disk.failed(new StoreError('store.busy', 'another fault'));
  expect(disk.problem).toBeNull();
  disk.failed(new StoreError('store.disk_full', 'full'));
  expect(disk.problem).toContain('the disk of the database is full');
  disk.written();
  expect(disk.problem).toBeNull();
  disk.failed(new StoreError('store.disk_full', 'full again'));
  vi.advanceTimersByTime(59_000);
  expect(disk.problem).not.toBeNull();
  vi.advanceTimersByTime(2_000);
  expect(disk.problem).toBeNull();
});
