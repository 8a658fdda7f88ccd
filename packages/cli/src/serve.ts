import { ServerError, startService, type RunningService } from '@trainyard/server';

import { gettingStarted } from './getting-started.ts';
import { parseSettings } from './settings.ts';

/**
 * `trainyard serve`: runs until SIGINT or SIGTERM; a second signal ends it at once.
 *
 * @returns the exit code
 */
export async function serve(args: readonly string[]): Promise<number> {
  let service: RunningService;
  try {
    const settings = parseSettings('serve', args);
    if (settings.kind === 'help') {
      process.stdout.write(settings.text);
      return 0;
    }
    const startedAt = performance.now();
    service = await startService(settings.config, (line) => process.stderr.write(`${line}\n`));
    process.stdout.write(gettingStarted(service, (performance.now() - startedAt) / 1000));
  } catch (error) {
    if (!(error instanceof ServerError) && !hasCode(error)) throw error;
    process.stderr.write(`trainyard: ${(error as Error).message}\n`);
    return 1;
  }
  await endSignal();
  process.stderr.write('\nfinishing running requests (press Ctrl-C again to stop at once)\n');
  await service.close();
  return 0;
}

/** Errors of the packages below carry a stable code and a message for people; anything else is a bug and keeps its stack. */
function hasCode(error: unknown): boolean {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' && error.code.includes('.');
}

/** One Ctrl-C comes twice under npm: from the terminal, and once more from npm, which forwards it. */
const SAME_KEYPRESS_MS = 1_000;

async function endSignal(): Promise<void> {
  const received = Promise.withResolvers<void>();
  let firstAtMs: number | null = null;
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      const nowMs = performance.now();
      if (firstAtMs !== null && nowMs - firstAtMs > SAME_KEYPRESS_MS) process.exit(130);
      firstAtMs ??= nowMs;
      received.resolve();
    });
  }
  await received.promise;
}
