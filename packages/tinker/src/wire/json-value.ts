import { wireFault } from './wire-fault.ts';

/** @throws {TrainerError} `trainer.remote_refused` for anything else */
export function asObject(value: unknown, what: string): Readonly<Record<string, unknown>> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  throw wireFault(`${what} is not an object`);
}

/** @throws {TrainerError} `trainer.remote_refused` for anything else */
export function asText(value: unknown, what: string): string {
  if (typeof value === 'string' && value !== '') return value;
  throw wireFault(`${what} is not a string`);
}

/** @throws {TrainerError} `trainer.remote_refused` for anything else */
export function asNumber(value: unknown, what: string): number {
  if (typeof value === 'number') return value;
  throw wireFault(`${what} is not a number`);
}
