import type { Blobs } from '@trainyard/store';
import { LocalVersions, type VersionFolders } from '@trainyard/trainer';

import { type CheckpointManifest, writeManifest } from '../../seams/data/checkpoint-manifest.ts';

/**
 * Adapter versions that a job of the trainer host reads and writes: its snapshots are local folders, removed
 * at the end of the job; every other name is the key of a blob directory.
 */
export class JobVersions implements VersionFolders {
  readonly #blobs: Blobs;
  readonly #snapshots: LocalVersions;
  readonly #prefix: string;
  readonly #output: string | null;
  readonly #manifest: CheckpointManifest | null;

  /**
   * @param options.snapshots prefix of snapshot names, and their folder below `workDirectory`
   * @param options.manifest is written into the version `output`. Default: none
   */
  constructor(
    blobs: Blobs,
    options: {
      readonly snapshots: string;
      readonly workDirectory: string;
      readonly output?: string;
      readonly manifest?: CheckpointManifest;
    },
  ) {
    this.#blobs = blobs;
    this.#output = options.output ?? null;
    this.#manifest = options.manifest ?? null;
    this.#snapshots = new LocalVersions(options.workDirectory);
    this.#prefix = `${options.snapshots}/`;
  }

  async find(name: string): Promise<string | null> {
    return this.#isSnapshot(name) ? await this.#snapshots.find(name) : await this.#blobs.localDirectory(name);
  }

  async write<Result>(name: string, fill: (directory: string) => Result): Promise<Result> {
    if (this.#isSnapshot(name)) return await this.#snapshots.write(name, fill);
    const staged = await this.#blobs.stageDirectory();
    try {
      const result = await new LocalVersions().write(staged, (directory) => {
        if (name === this.#output && this.#manifest !== null) writeManifest(directory, this.#manifest);
        return fill(directory);
      });
      // Left by an earlier process that ended between the commit and the report.
      await this.#blobs.removeDirectory(name);
      await this.#blobs.commitDirectory(staged, name);
      return result;
    } finally {
      await this.#blobs.discardDirectory(staged);
    }
  }

  async remove(name: string): Promise<void> {
    if (this.#isSnapshot(name)) await this.#snapshots.remove(name);
    else await this.#blobs.removeDirectory(name);
  }

  #isSnapshot(name: string): boolean {
    return name.startsWith(this.#prefix);
  }
}
