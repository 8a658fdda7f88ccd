import { TrainerError } from '@trainyard/trainer';

/** Error for an answer that violates the protocol. */
export function wireFault(what: string, cause?: unknown): TrainerError {
  return new TrainerError('trainer.remote_refused', `invalid answer from the Tinker server: ${what}`, {
    cause,
  });
}
