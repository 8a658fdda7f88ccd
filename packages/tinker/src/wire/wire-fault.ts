import { TrainerError } from '@trainyard/trainer';

/** An answer that is not of the protocol. */
export function wireFault(what: string, cause?: unknown): TrainerError {
  return new TrainerError('trainer.remote_refused', `the Tinker server answered something unreadable: ${what}`, {
    cause,
  });
}
