import type { Log } from '../seams/logging/log.ts';
import type { JobLease } from './job-lease.ts';
import { JobFault } from '../seams/faults/http-faults.ts';

/** Maximum number of hosts that one transfer may lose while the service runs. */
const MAX_LOSSES = 3;

/**
 * Claims of a transfer after which it counts as the cause of the service's ends (such as a container killed
 * for memory). Far more than restarts and power cuts add up to, which do not count as failures of the
 * transfer.
 */
export const MAX_SERVICE_LOSSES = 20;

/**
 * Repeats a transfer whose host process is lost (killed, out of memory, hung), up to {@link MAX_LOSSES}
 * times. Restarts of the service do not count.
 * @param run one attempt with its own host and output folder
 * @throws {JobFault} `trainer.host_lost` after the last attempt; any other error of `run` at once
 */
export async function retryLostHost<Result>(
  run: () => Promise<Result>,
  { name, lease, log }: { readonly name: string; readonly lease: JobLease; readonly log: Log },
): Promise<Result> {
  for (let numLosses = 1; ; numLosses++) {
    try {
      return await run();
    } catch (error) {
      if (!isHostLost(error) || lease.signal.aborted) throw error;
      const { message } = error;
      if (numLosses === MAX_LOSSES)
        throw new JobFault('trainer.host_lost', `${numLosses} processes were lost while this job ran: ${message}`);
      log(`${name}: ${message}. Attempt ${numLosses + 1} of ${MAX_LOSSES} starts.`, { level: 'warn' });
    }
    // A short pause, so that memory or a missing file can come back.
    await lease.pause();
    lease.signal.throwIfAborted();
  }
}

function isHostLost(error: unknown): error is Error {
  return error instanceof Error && 'code' in error && error.code === 'trainer.host_lost';
}
