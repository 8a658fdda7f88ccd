/**
 * Kind of an engine's failure.
 * `unreachable`: no connection. `lost`: the connection broke. `hangs`: no data for too long. `draining`: it
 * takes no new requests. `unfit`: it refuses the secret, speaks another protocol, or sends invalid data.
 * `failed`: it reported a failure.
 */
export type EngineFailureKind = 'unreachable' | 'lost' | 'hangs' | 'draining' | 'unfit' | 'failed';

/** Failure of a remote engine. The message is for the log, and contains its address. */
export class EngineFault extends Error {
  override readonly name = 'EngineFault';
  readonly kind: EngineFailureKind;

  constructor(kind: EngineFailureKind, message: string, options?: ErrorOptions) {
    super(message, options);
    this.kind = kind;
  }
}
