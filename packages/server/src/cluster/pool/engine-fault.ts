/**
 * Why an engine did not do what it was asked.
 *
 * `unreachable`: no connection was made. `lost`: it broke. `hangs`: it said nothing for too long. `draining`: it takes no new requests. `unfit`: it does not take
 * the secret, speaks another protocol, or makes no sense. `failed`: it says that it failed.
 */
export type EngineFailureKind = 'unreachable' | 'lost' | 'hangs' | 'draining' | 'unfit' | 'failed';

/** A failure of an engine elsewhere; the message is for the log, and names its address. */
export class EngineFault extends Error {
  override readonly name = 'EngineFault';
  readonly kind: EngineFailureKind;

  constructor(kind: EngineFailureKind, message: string, options?: ErrorOptions) {
    super(message, options);
    this.kind = kind;
  }
}
