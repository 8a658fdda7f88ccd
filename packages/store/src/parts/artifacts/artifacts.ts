import type { OrderedPageQuery, Page } from '../../contract/page.ts';
import type { CompletesWith, IdempotentAnswer } from '../idempotency/idempotency.ts';

/** Versions of files of JSON lines that clients uploaded. */
export interface Artifacts {
  /**
   * Creates the next version of its name (the first is 0). If the newest is the same file, returns that one.
   */
  add(input: NewArtifact & { completes?: CompletesWith<AddArtifactResult> }): Promise<AddArtifactResult>;
  find(name: ArtifactName, version: number | 'latest'): Promise<Artifact | null>;
  /** Artifacts in order of creation. */
  list(query: OrderedPageQuery & { entityId: string; project?: string; name?: string }): Promise<Page<Artifact>>;
  /** Deletes an artifact. False if unknown or already deleted. The caller removes its blob afterwards. */
  delete(artifactId: string, completes?: IdempotentAnswer): Promise<boolean>;
}

/** One version of a file of JSON lines uploaded by a client; its lines are in the blob `blobKey`. */
export interface Artifact {
  id: string;
  entityId: string;
  entity: string;
  project: string;
  name: string;
  /** 0-based; numbers are never reused. */
  version: number;
  fileName: string;
  blobKey: string;
  /** SHA-256 of the uploaded file, hex. */
  digest: string;
  /** Size of the uploaded file, bytes. */
  sizeBytes: number;
  numLines: number;
  createdAt: number;
}

export interface ArtifactName {
  entityId: string;
  project: string;
  name: string;
}

export interface NewArtifact extends ArtifactName {
  fileName: string;
  blobKey: string;
  digest: string;
  sizeBytes: number;
  numLines: number;
}

/** `isNew` false: the file existed already, and the blob of the input is not needed. */
export interface AddArtifactResult {
  artifact: Artifact;
  isNew: boolean;
}
