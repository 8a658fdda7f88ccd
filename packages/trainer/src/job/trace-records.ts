import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeFolders, replaceFile } from '../checkpoint/durable-directory.ts';

/** Encoded by `encodeTokenTrace`. */
export interface EncodedTrace {
  readonly groupIndex: number;
  readonly trajectoryIndex: number;
  readonly trace: Uint8Array;
}

/** Traces are written before the step's snapshot and sent with its event, so a repeated event has them again. */
export interface TraceRecords {
  /** @throws {TrainerError} `trainer.disk_full` */
  write(name: string, gradientStep: number, traces: readonly EncodedTrace[]): void;
  /** Empty if there are none. */
  read(name: string, gradientStep: number): readonly EncodedTrace[];
}

/** Files `traces-<k>` in the directory of the name. */
export class TraceFiles implements TraceRecords {
  readonly #root: string;

  /** @param root base of relative names; default: names are paths */
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
