import { closeSync, existsSync, fsyncSync, openSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';

import { makeFolders, syncDirectory } from '@trainyard/trainer';

export interface OpenModel {
  readonly url: string;
  readonly modelId: string;
  /** Number of the last request that was, or may have been, sent. */
  readonly lastSeqId: number;
}

/**
 * Journal of this machine's models on servers and their request numbers. It is on disk before anything is sent:
 * no number is reused, and a restart after a crash can unload them.
 */
export class ModelJournal {
  readonly #path: string;
  readonly #open = new Map<string, OpenModel>();
  #file: number | null = null;

  /** @param path in the state folder; created if missing */
  constructor(path: string) {
    this.#path = path;
    if (!existsSync(path)) return;
    for (const line of readFileSync(path, 'utf8').split('\n')) this.#read(line);
  }

  /** Models that were not closed. */
  openModels(): OpenModel[] {
    return [...this.#open.values()];
  }

  /** Never issued again. */
  nextSeqId(model: Pick<OpenModel, 'url' | 'modelId'>): number {
    const lastSeqId = (this.#open.get(keyOf(model))?.lastSeqId ?? 0) + 1;
    this.#append({ ...model, lastSeqId });
    return lastSeqId;
  }

  opened(model: Pick<OpenModel, 'url' | 'modelId'>): void {
    this.#append({ ...model, lastSeqId: 0 });
  }

  closed(model: Pick<OpenModel, 'url' | 'modelId'>): void {
    this.#append({ ...model, lastSeqId: null });
  }

  close(): void {
    if (this.#file !== null) closeSync(this.#file);
    this.#file = null;
  }

  #append(entry: Entry): void {
    this.#file ??= this.#begin();
    this.#apply(entry);
    try {
      writeLine(this.#file, entry);
      fsyncSync(this.#file);
    } catch (error) {
      // No line may follow an incomplete one: the next entry starts a new file.
      this.close();
      throw error;
    }
  }

  /** Keeps only the open models, so that the file does not grow over restarts. */
  #begin(): number {
    makeFolders(dirname(this.#path));
    const temporary = `${this.#path}.new`;
    const file = openSync(temporary, 'w', 0o600);
    try {
      for (const entry of this.#open.values()) writeLine(file, entry);
      fsyncSync(file);
      renameSync(temporary, this.#path);
      syncDirectory(dirname(this.#path));
      return file;
    } catch (error) {
      closeSync(file);
      throw error;
    }
  }

  #apply(entry: Entry): void {
    if (entry.lastSeqId === null) this.#open.delete(keyOf(entry));
    else this.#open.set(keyOf(entry), { ...entry, lastSeqId: entry.lastSeqId });
  }

  /** Ignores an incomplete last line after a crash; its number was not issued. */
  #read(line: string): void {
    let entry: unknown;
    try {
      entry = JSON.parse(line);
    } catch {
      return;
    }
    if (isEntry(entry)) this.#apply(entry);
  }
}

interface Entry {
  readonly url: string;
  readonly modelId: string;
  /** Null: closed. */
  readonly lastSeqId: number | null;
}

function isEntry(value: unknown): value is Entry {
  if (typeof value !== 'object' || value === null) return false;
  const { url, modelId, lastSeqId } = value as Record<string, unknown>;
  return (
    typeof url === 'string' && typeof modelId === 'string' && (lastSeqId === null || Number.isSafeInteger(lastSeqId))
  );
}

/** Writes the whole line: a full disk may accept part of it before it fails. */
function writeLine(file: number, entry: Entry): void {
  writeFileSync(file, `${JSON.stringify(entry)}\n`);
}

function keyOf({ url, modelId }: Pick<OpenModel, 'url' | 'modelId'>): string {
  return `${url}\n${modelId}`;
}
