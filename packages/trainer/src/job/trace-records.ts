import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeFolders, replaceFile } from '../checkpoint/durable-directory.ts';

/** A trajectory's tokens in a gradient step, as `encodeTokenTrace` makes them. */
export interface EncodedTrace {
  readonly groupIndex: number;
  readonly trajectoryIndex: number;
  readonly trace: Uint8Array;
}

/**
 * Traces of the tokens of a job's gradient steps. They are written before the step's snapshot and told with the step's event, so a step that is
 * told again has them again.
 */
export interface TraceRecords {
  /** In place of what was there. @throws {TrainerError} `trainer.disk_full` */
  write(name: string, gradientStep: number, traces: readonly EncodedTrace[]): void;
  /** Empty when there are none. */
  read(name: string, gradientStep: number): readonly EncodedTrace[];
}

/** Traces in files: `traces-<k>` in the directory of the name. */
export class TraceFiles implements TraceRecords {
  readonly #root: string;

  /** @param root that names are relative to; default: they are paths by themselves */
  constructor(root = '') {
    this.#root = root;
  }

  write(name: string, gradientStep: number, traces: readonly EncodedTrace[]): void {
    makeFolders(join(this.#root, name));
    const index = JSON.stringify(
      traces.map(({ groupIndex, trajectoryIndex, trace }) => [groupIndex, trajectoryIndex, trace.length]),
    );
    replaceFile(
      this.#path(name, gradientStep),
      Buffer.concat([Buffer.from(`${index}\n`), ...traces.map(({ trace }) => trace)]),
    );
  }

  read(name: string, gradientStep: number): readonly EncodedTrace[] {
    let bytes: Buffer;
    try {
      bytes = readFileSync(this.#path(name, gradientStep));
    } catch (error) {
      if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return [];
      throw error;
    }
    const end = bytes.indexOf(NEWLINE);
    const index = JSON.parse(bytes.toString('utf8', 0, end)) as [number, number, number][];
    let at = end + 1;
    return index.map(([groupIndex, trajectoryIndex, length]) => {
      const trace = Uint8Array.from(bytes.subarray(at, at + length));
      at += length;
      return { groupIndex, trajectoryIndex, trace };
    });
  }

  #path(name: string, gradientStep: number): string {
    return join(this.#root, name, `traces-${gradientStep}`);
  }
}

const NEWLINE = 0x0a;
