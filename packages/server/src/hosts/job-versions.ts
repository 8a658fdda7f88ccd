import type { Blobs } from '@trainyard/store';
import { LocalVersions, type VersionFolders } from '@trainyard/trainer';

/**
 * The adapter versions that a job of the trainer host reads and writes: its snapshots are folders of this machine, gone when the job ends;
 * every other name is the key of a blob directory, here or wherever blobs are.
 */
export class JobVersions implements VersionFolders {
  readonly #blobs: Blobs;
  readonly #snapshots: LocalVersions;
  readonly #prefix: string;

  /** @param options.snapshots what names of snapshots begin with; they lie in the folder of that name below `workDirectory` */
  constructor(blobs: Blobs, options: { readonly snapshots: string; readonly workDirectory: string }) {
    this.#blobs = blobs;
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
      const result = await new LocalVersions().write(staged, fill);
      // Of a life before that ended between the commit and the report.
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
